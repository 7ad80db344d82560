"""A reader of mails that does what stands in them: hangs, eats memory, dies, prints."""

import os
import sys

from signoff.channels.email.inbound import reader
from signoff.channels.email.parsing import reading
from signoff.channels.email.parsing.reading import IncomingMail, SentLines, read_mail


def odd(raw: bytes, sent_lines: SentLines = ()) -> IncomingMail:
    """Read a mail, unless it says otherwise."""
    while b"!hang" in raw:
        pass
    if b"!sleep" in raw:
        sys.stdin.buffer.read()
    if b"!eat" in raw:
        bytes(1 << 40)
    if b"!die" in raw:
        os._exit(3)
    if b"!bug" in raw:
        raise KeyError("a bug")
    sys.stdout.write("noise")
    return read_mail(raw, sent_lines)


reading.__dict__["read_mail"] = odd
if __name__ == "__main__":
    reader.main(int(sys.argv[1]), int(sys.argv[2]))
