"""Vote in class: `make poll NB=02`, and with phones `make poll NB=02 ADDRESS=192.168.1.20`.

The predictions of a lesson are asked one after the other. Phones on the same network vote on the
page of this server, and the page of the teacher shows how many have voted, then the bars, and then
the correct answer. The slides of the lesson have this page in the place of each question. No phone
learns the answer before. All of it is in memory, and it is gone when the server ends.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

import psutil
import segno
from tornado.httpserver import HTTPServer
from tornado.web import Application, HTTPError, RequestHandler

from attnlab import palette
from tools.build.sources import find_notebooks, is_lesson, select
from tools.publish.questions import Question, questions_of
from tools.publish.slides import deck_of

HERE = "127.0.0.1"
STEPS = ASKED, COUNTED, ANSWERED = range(3)  # what the teacher's page shows of a question
BODY = 1000  # bytes of a request
PHONES = 1000  # that may vote; more are refused
COOKIE = {"expires_days": None, "httponly": True, "samesite": "Strict"}  # until the browser ends
NO_LESSON = "Name the lesson whose predictions are asked, as in make poll NB=03."
ONLY_HERE = (
    "Only this computer can open these pages. For phones on the same network, name the address "
    "that this computer has there: make poll NB={} ADDRESS={}"
)


class Poll:
    """The questions, the one that is shown and how much of it, the votes, and the slides."""

    def __init__(self, questions: Sequence[Question], slides: str = "") -> None:
        self.questions, self.slides = questions, slides
        self.votes: list[dict[bytes, int]] = [{} for _ in questions]
        self.number, self.step = 0, ASKED
        self.has_begun = False  # the teacher has opened the first question

    def turn(self, place: int) -> None:
        """Go to a step, counted from the first one; before that and after the last is nothing."""
        place = min(max(place, 0), len(STEPS) * len(self.questions) - 1)
        self.number, self.step = divmod(place, len(STEPS))

    def vote(self, phone: bytes, number: int, option: int) -> None:
        """Count a vote, in place of an earlier one; HTTPError says why it does not count."""
        votes = self.votes[self.number]
        if not self.has_begun or number != self.number or self.step == ANSWERED:
            raise HTTPError(HTTPStatus.CONFLICT)
        if option not in range(len(self.questions[number].options)):
            raise HTTPError(HTTPStatus.BAD_REQUEST)
        if phone not in votes and len(votes) >= PHONES:
            raise HTTPError(HTTPStatus.TOO_MANY_REQUESTS)
        votes[phone] = option

    def shown(self) -> dict[str, object]:
        """Return what everybody may see: the question, and its answer once it is shown."""
        question = self.questions[self.number]
        shown = {
            "number": self.number,
            "of": len(self.questions),
            "step": self.step,
            "question": question.text,
            "options": [option.text for option in question.options],
        }
        if self.step == ANSWERED:
            shown["right"] = [option.is_right for option in question.options]
            shown["reasons"] = [option.reason for option in question.options]
            shown["explanation"] = question.explanation
        return shown

    def counted(self) -> dict[str, object]:
        """Return what the teacher sees beside that: how many have voted, and then for what."""
        votes = self.votes[self.number]
        counts = Counter(votes.values()) if self.step > ASKED else {}
        options = range(len(self.questions[self.number].options))
        return {"voted": len(votes), "counts": [counts.get(option, 0) for option in options]}


class Handler(RequestHandler):
    """A request about the poll."""

    def initialize(self, poll: Poll) -> None:
        """Take the poll."""
        self.poll = poll

    def set_default_headers(self) -> None:
        """Let a page load nothing from elsewhere and tell nobody its address."""
        policy = "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; "
        self.set_header("Content-Security-Policy", policy + "script-src 'unsafe-inline'")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("Cache-Control", "no-store")

    def page(self, name: str, code: str = "") -> None:
        """Answer with a page of this folder, which may show a code."""
        text = (Path(__file__).parent / name).read_text(encoding="utf-8")
        self.write(text.replace("COLOURS", palette.css()).replace("QR_CODE", code))

    def whole(self, name: str) -> int:
        """Return a field of the request, which must be a whole number."""
        text = self.get_body_argument(name)
        if not text.isdecimal():
            raise HTTPError(HTTPStatus.BAD_REQUEST)
        return int(text)


class PhonePage(Handler):
    """The page for phones, each of which gets a name that only this server can give."""

    def get(self) -> None:
        """Show the page."""
        if not self.get_signed_cookie("phone"):
            self.set_signed_cookie("phone", secrets.token_hex(8), **COOKIE)
        self.page("phone.html")


class Votes(Handler):
    """What a phone asks and says."""

    def get(self) -> None:
        """Tell the question and the phone's own vote, once there is a question."""
        if not self.poll.has_begun:
            self.write({})
            return
        mine = self.poll.votes[self.poll.number].get(self.get_signed_cookie("phone"))
        self.write({**self.poll.shown(), "mine": mine})

    def post(self) -> None:
        """Take a vote."""
        phone = self.get_signed_cookie("phone")
        if not phone:
            raise HTTPError(HTTPStatus.FORBIDDEN)
        self.poll.vote(phone, self.whole("number"), self.whole("option"))


class Entrance(Handler):
    """An address that nobody can guess; its visitor is the teacher."""

    def get(self, page: str) -> None:
        """Lead to a page of the teacher, whose own address may be seen on a projector."""
        self.set_signed_cookie("teacher", "yes", **COOKIE)
        self.redirect(f"/{page}")


class TeacherPage(Handler):
    """The page of the teacher."""

    def prepare(self) -> None:
        """Let nobody else in."""
        if not self.get_signed_cookie("teacher"):
            raise HTTPError(HTTPStatus.FORBIDDEN)

    def get(self) -> None:
        """Show the page, with a code from which phones read the address, if they can reach it."""
        address = f"http://{self.request.host}/"
        code = segno.make(address, micro=False).svg_inline(omitsize=True, title=address)
        self.page("teacher.html", code * (self.request.host_name != HERE))


class Slides(TeacherPage):
    """The slides of the lesson, which say themselves what they may load."""

    def set_default_headers(self) -> None:
        """Let no browser keep the page."""
        self.set_header("Cache-Control", "no-store")

    def get(self) -> None:
        """Show the slides, which find the page of the teacher here."""
        self.write(self.poll.slides.replace("data-slides", "data-slides data-poll", 1))


class Counts(TeacherPage):
    """What the page of the teacher asks and says."""

    def prepare(self) -> None:
        """Let phones see the question as soon as the teacher does."""
        super().prepare()
        self.poll.has_begun = True

    def get(self) -> None:
        """Tell the question and the votes."""
        self.write({**self.poll.shown(), **self.poll.counted()})

    def post(self) -> None:
        """Go to the step that the page names."""
        self.poll.turn(self.whole("place"))
        self.get()


def server_of(poll: Poll, secret: str) -> HTTPServer:
    """Return a server of a poll, which keeps no log; ``secret`` is the address of the entrance."""
    pages = {"/": PhonePage, "/votes": Votes, "/teacher": TeacherPage, "/counts": Counts}
    pages |= {"/slides": Slides, f"/{secret}/(teacher|slides)": Entrance}
    routes = [(path, page, {"poll": poll}) for path, page in pages.items()]
    key = secrets.token_hex(32)
    application = Application(routes, cookie_secret=key, log_function=lambda _handler: None)
    logging.getLogger("tornado.general").setLevel(logging.ERROR)  # a warning names the phone
    return HTTPServer(application, max_body_size=BODY)


def addresses() -> list[str]:
    """Return the addresses that this computer has in its networks."""
    known = [one.address for net in psutil.net_if_addrs().values() for one in net]
    return [one for one in known if one.count(".") == 3]


async def serve(poll: Poll, lesson: str, address: str, port: int) -> None:
    """Serve a poll until it is interrupted, and say where its pages are."""
    secret = secrets.token_urlsafe(16)
    server = server_of(poll, secret)
    server.listen(port, address)
    print(f"For you:    http://{address}:{port}/{secret}/teacher")
    print(f"On slides:  http://{address}:{port}/{secret}/slides")
    print(f"For phones: http://{address}:{port}/")
    if address == HERE:
        own = next((one for one in addresses() if one != HERE), "192.168.1.20")
        print(ONLY_HERE.format(lesson, own))
    print(f"It asks {len(poll.questions)} predictions, and not what an explorer itself asks.")
    print("Ctrl+C ends the poll, and its votes are gone.")
    try:
        await asyncio.Event().wait()
    finally:
        server.stop()


def main() -> None:
    """Ask the predictions of the lesson that the command line names."""
    parser = argparse.ArgumentParser(prog="tools.poll")
    parser.add_argument("lesson")
    parser.add_argument("--address", default=HERE)
    parser.add_argument("--port", type=int, default=8899)
    asked = parser.parse_args()
    if not asked.lesson:
        raise SystemExit(NO_LESSON)
    lesson, *_ = select(filter(is_lesson, find_notebooks()), [asked.lesson])
    poll = Poll(questions_of(lesson), deck_of(lesson))
    try:
        asyncio.run(serve(poll, lesson.stem[:2], asked.address, asked.port))
    except OSError as error:
        why = f"The poll cannot use {asked.address}:{asked.port}: {error}."
        if asked.address not in addresses():
            why += f" This computer has the addresses {', '.join(addresses())}."
        raise SystemExit(why) from None
    except KeyboardInterrupt:
        print("\nThe poll has ended.")


if __name__ == "__main__":
    main()
