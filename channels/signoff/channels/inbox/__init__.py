"""The inbox page: people sign in, see their pending requests and answer them."""
