"""What the texts of a ledger have in common: the dictionary of their packed form."""

from __future__ import annotations

from typing import Final

DICTIONARY: Final = (
    b'"problem":"","held":"",'
    b'"watched":"traceparent":"00-outside":"supersedes":"superseded_by":"result":"star'
    b'ts":[{"program":{"instance":"request":"tool":"server":"arguments":{"context":"re'
    b'asoning":"timeout":"consumed_by":"report":{"succeeded":true,'
    b'"note":""glass":"receipt":"ey","handovers":[{"of":"","to":"","extensions":[{"more":"PT",'
    b'"comments":[{"text":"sort":"question""claimed":{"by":"","until":"\x05",'
    b'"paused":"paused_due":"absent":["informed":["reported":true,'
    b'"reminded_at":"\x05""decision":{"by":"","at":"\x05","channel":"inbox","reason":"",'
    b'"payload":{"proposal":{"first_step":"grant":"gr_covers":["votes":[{"stands_for":"",'
    b'"level":1,"round":1,"verdict":"approve"reject","templates":{"type":"object",'
    b'"properties":"terms":{"within":{"length":"PT4H","business":true,'
    b'"time_zone":"Europe/"remind":["quorum":2,"order":"in_turn","veto":true,'
    b'"reasons":"required","channels":["slack","slack_channel":"#slack_group":"urgent":true,'
    b'"effect":"on_timeout":"reject","repeat":"on_out_of_office":"clock":"pause",'
    b'"in_doubt":"edits":["resume":"each","name_approver":true,"email":"risk":"high",'
    b'"valid_for":"P"grants":{"who":"longest":"most":"vary":["limit":"break_glass":["a'
    b'sk_twice":"title":"{args.",'
    b'"money":{"hide":["inform":["notify_requester":"notify_by":""all_of":[{"ask":["ch'
    b'ains":["levels":[{"name":"under_ceiling":true,"second_step":true,'
    b'"batch":"at_least":"instead_of":"","groups":["covers":["through":["problem":"",'
    b'"away":"copy_state":"copies":["turn":"shown":"bundle":""again":true,'
    b'"nth":"expired":"made":"by":"","why":"","more":{"text":"{"id":"run_\x03","app":"",'
    b'"user":"@example.com","session":"s_\x03","message":"","state":"paused",'
    b'"submitted_at":"\x05","pause":1,"approvals":["ap_"],"waiting":["ap_"],'
    b'"trace":"\x02"{"what":"submitted","at":"\x05","run":"run_\x03","by":"{"what":"opened",'
    b'"at":"\x05","approval":"ap_","run":"run_\x03","by":"","more":{"tool":"",'
    b'"digest":"sha256:\x01","kind":"confirmation"}}{"what":"asked","at":"\x05",'
    b'"approval":"ap_","run":"run_\x03",'
    b'"more":{"people":["policy":"level":{"what":"delivered","at":"\x05","approval":"ap_",'
    b'"run":"run_\x03","by":"slack","more":{"person":"","receipt":""kind":"long_running",'
    b'"kind":"input","declared":{"request":"said":"template":{"level":1,"round":1,'
    b'"reminders":["reminded":1,"barred":["steps":[{"id":"ap_","origin":{"run":"\x10",'
    b'"app":"","agent":"","user":"@example.com","session":"s_\x03","invocation":"e-\x04",'
    b'"confirmation":"adk-\x02"},"call":{"id":"adk-\x02","name":"","args":{"amount":,'
    b'"purpose":"","reason":"","email":""}},"digest":"sha256:\x01",'
    b'"hint":"Please approve or reject the tool call () by responding with a FunctionR'
    b'esponse with an expected ToolConfirmation payload.","opened_at":"\x05",'
    b'"terms":{"policy":"","version":"\x03","ask":[""asked":[{"person":"","channel":"email",'
    b'"address":"@example.com","receipt":""seats":[{"person":"","via":""}],"since":"\x05",'
    b'"deadline":"\x05","needs":1}'
)
"""What is most frequent comes last. It is part of the format: another one needs another form."""
