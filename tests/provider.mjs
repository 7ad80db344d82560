// A certified provider of OpenID Connect for the tests: node provider.mjs MODULES PORT BACK
const [modules, port, back] = process.argv.slice(2);
const { Provider } = await import(`${modules}/oidc-provider/lib/index.js`);
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{ client_id: "signoff", client_secret: "secret", redirect_uris: [back] }],
  claims: { openid: ["sub"], email: ["email", "email_verified"] },
  cookies: { keys: ["only for tests"] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, email: id, email_verified: !id.startsWith("unverified") }),
  }),
  pkce: { required: () => true },
});
provider.listen(Number(port), "127.0.0.1", () => console.log("listening"));
