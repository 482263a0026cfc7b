"""`make poll`: phones vote, the teacher sees it, and no request does harm or learns the answer."""

import asyncio
import json
from urllib.parse import urlencode

import pytest
from tornado.testing import AsyncHTTPTestCase, bind_unused_port

from tools.grade.submissions import lessons
from tools.poll import __main__ as polling
from tools.poll.__main__ import ANSWERED, ASKED, COUNTED, Poll
from tools.publish.questions import questions_of


@pytest.fixture(autouse=True)
def no_other_loop():
    """Hide the loop of a browser that an earlier test of this process has left open."""
    other = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(other)


SECRET = "not-to-be-guessed"
QUESTIONS = questions_of(lessons()[3])


class PollTest(AsyncHTTPTestCase):
    """A server of a poll, and requests to it with the cookies of one visitor."""

    def get_app(self):
        self.poll = Poll(QUESTIONS, "<html data-slides>")
        self.poll.has_begun = True
        return None

    def get_http_server(self):
        return polling.server_of(self.poll, SECRET)

    def visit(self, path="/", cookie="", **fields):
        body = urlencode(fields) if fields else None
        return self.fetch(
            path,
            method="POST" if fields else "GET",
            body=body,
            headers={"Cookie": cookie},
            follow_redirects=False,
        )

    def enter(self, path="/"):
        """Return the cookie of a new phone, or of the teacher."""
        answer = self.visit(path)
        assert answer.code in (200, 302)
        cookie, _, how = answer.headers["Set-Cookie"].partition(";")
        assert how == " HttpOnly; Path=/; SameSite=Strict"  # nothing that outlives the browser
        return cookie

    def told(self, path, cookie):
        return json.loads(self.visit(path, cookie).body)

    def vote(self, cookie, option, number=0):
        return self.visit("/votes", cookie, number=number, option=option).code

    def test_phones_vote_once_each_and_may_change_it(self):
        phones, teacher = [self.enter() for _ in range(4)], self.enter(f"/{SECRET}/teacher")
        for phone, option in zip(phones, (0, 1, 1, 2), strict=True):
            assert self.vote(phone, option) == 200
        assert self.vote(phones[0], 1) == 200
        assert self.told("/votes", phones[0])["mine"] == 1
        assert self.told("/counts", teacher)["counts"] == [0, 0, 0]  # until → is pressed
        assert self.told("/counts", teacher)["voted"] == 4
        self.visit("/counts", teacher, place=1)
        assert self.told("/counts", teacher)["counts"] == [0, 3, 1]

    def test_no_phone_sees_a_question_before_the_teacher_does(self):
        self.poll.has_begun = False
        phone, teacher = self.enter(), self.enter(f"/{SECRET}/slides")
        assert self.visit("/slides", teacher).code == 200  # at the title
        assert self.told("/votes", phone) == {}
        assert self.vote(phone, 0) == 409
        self.told("/counts", teacher)
        assert self.told("/votes", phone)["question"] == QUESTIONS[0].text
        assert self.vote(phone, 0) == 200

    def test_no_phone_learns_the_answer_before_the_teacher_shows_it(self):
        phone, teacher = self.enter(), self.enter(f"/{SECRET}/teacher")
        question = QUESTIONS[0]
        reason = next(option.reason for option in question.options if option.is_right)
        for step in (ASKED, COUNTED):
            assert self.poll.step == step
            told = self.told("/votes", phone)
            assert told.keys() == {"number", "of", "step", "question", "options", "mine"}
            self.visit("/counts", teacher, place=step + 1)
        told = self.told("/votes", phone)
        assert told["right"] == [option.is_right for option in question.options]
        assert reason in told["reasons"]
        assert self.vote(phone, 0) == 409  # it is too late
        self.visit("/counts", teacher, place=3)
        assert (self.poll.number, self.poll.step) == (1, ASKED)
        assert "right" not in self.told("/votes", phone)
        assert self.vote(phone, 0, number=0) == 409  # and not for the next question
        assert self.poll.votes == [{}, {}, {}]

    def test_only_the_teacher_turns_the_page(self):
        phone = self.enter()
        stolen = phone.replace("phone=", "teacher=")
        for cookie in ("", phone, stolen, "teacher=yes"):
            for page in ("/teacher", "/slides", "/counts"):
                assert self.visit(page, cookie).code == 403
            assert self.visit("/counts", cookie, place=1).code == 403
        assert (self.poll.number, self.poll.step) == (0, ASKED)
        for page, part in (("/teacher", b"Poll"), ("/slides", b"data-poll")):
            assert part in self.visit(page, self.enter(f"/{SECRET}{page}")).body

    def test_phones_read_the_address_from_a_code_if_they_can_reach_it(self):
        teacher = {"Cookie": self.enter(f"/{SECRET}/teacher")}
        for host, count in (("192.168.1.20:8899", 1), ("127.0.0.1:8899", 0)):
            page = self.fetch("/teacher", headers={**teacher, "Host": host}).body.decode()
            assert page.count("<svg") == page.count(f"<title>http://{host}/</title>") == count
            assert "QR_CODE" not in page

    def test_hostile_requests_change_nothing(self):
        phone = self.enter()
        html = "<script>alert(1)</script>"
        for option in (3, -1, 10**50, "x", html, "²", "", "1.0"):
            answer = self.visit("/votes", phone, number=0, option=option)
            assert (option, answer.code) == (option, 400)
            assert html.encode() not in answer.body
        assert self.vote("phone=me", 0) == self.vote("", 0) == 403
        assert self.visit("/votes", phone, option=0).code == 400
        assert self.visit(f"/{html.replace('/', '%2F')}", phone).code == 404
        assert self.visit("/../Makefile").code == 404
        assert self.poll.votes == [{}, {}, {}]
        assert self.vote(phone, 0) == 200

    def test_a_huge_body_is_not_read(self):
        answer = self.fetch("/votes", method="POST", body="option=" + "9" * 10**6)
        assert answer.code in (400, 599)  # the connection is closed
        assert self.poll.votes == [{}, {}, {}]
        assert self.vote(self.enter(), 0) == 200

    def test_more_phones_than_a_class_has_are_refused(self):
        self.poll.votes[0] = {str(number).encode(): 0 for number in range(polling.PHONES)}
        assert self.vote(self.enter(), 1) == 429


def test_pages_turn_from_the_first_step_to_the_last():
    poll, seen = Poll(QUESTIONS[:2]), []
    for place in range(8):
        poll.turn(place)
        seen.append((poll.number, poll.step))
    steps = [(number, step) for number in range(2) for step in (ASKED, COUNTED, ANSWERED)]
    assert seen == [*steps, steps[-1], steps[-1]]


@pytest.mark.parametrize(
    ("address", "said"),
    [("127.0.0.1", r"in use\.$"), ("192.0.2.77", r"in use\. .* has the addresses .*127\.0\.0\.1")],
)
def test_an_address_that_cannot_be_used_is_said(monkeypatch, address, said):
    def listen(*_place):
        raise OSError("in use")

    monkeypatch.setattr("tornado.httpserver.HTTPServer.listen", listen)
    monkeypatch.setattr("sys.argv", ["poll", "3", "--port", "80", "--address", address])
    with pytest.raises(SystemExit, match=rf"The poll cannot use {address}:80: {said}"):
        polling.main()


def test_a_poll_without_a_lesson_asks_for_one(monkeypatch):
    monkeypatch.setattr("sys.argv", ["poll", ""])
    with pytest.raises(SystemExit, match="make poll NB=03"):
        polling.main()


def test_who_names_no_address_is_told_how(monkeypatch, capsys):
    async def end():
        raise KeyboardInterrupt

    monkeypatch.setattr("asyncio.Event.wait", lambda _event: end())
    socket, port = bind_unused_port()
    socket.close()
    monkeypatch.setattr("sys.argv", ["poll", "03", "--port", str(port)])
    polling.main()
    said = capsys.readouterr().out
    assert "Only this computer can open these pages." in said
    assert "make poll NB=03 ADDRESS=" in said
    assert "It asks 3 predictions, and not what an explorer itself asks." in said
    assert said.endswith("The poll has ended.\n")
