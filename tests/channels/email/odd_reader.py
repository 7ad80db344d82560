"""A reader of mails that follows their instructions: it hangs, uses memory, dies or prints.

Usage: python odd_reader.py FIFO SECONDS BYTES

Before it hangs, it waits until another process opens the FIFO for writing.
"""

import os
import sys
from pathlib import Path

from signoff.channels.email.inbound import reader
from signoff.channels.email.parsing import reading
from signoff.channels.email.parsing.reading import IncomingMail, SentLines, read_mail


def odd(raw: bytes, sent_lines: SentLines = ()) -> IncomingMail:
    """Read a mail, unless it has an instruction."""
    if b"!hang" in raw:
        Path(sys.argv[1]).read_bytes()
        while True:
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
    reader.main(int(sys.argv[2]), int(sys.argv[3]))
