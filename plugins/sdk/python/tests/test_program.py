"""The life of real handler processes."""

import json
import os
import unittest

from taskengine import _wire
from tests import host as h


class Process(h.ProcessTest):
    program = "handlers.py"

    def assertGivesUp(self, words, *arguments, **env):
        process = self.launch(*arguments, **env)
        out, _ = process.communicate(timeout=h.PATIENCE)
        self.assertEqual((process.returncode, out), (1, b""))
        self.assertIn(words, self.log())
        self.assertNotIn(b"Traceback", self.log())

    def test_started_by_a_person_it_explains_itself(self):
        self.assertGivesUp(b"set TASKENGINE_ADDRESS to the address of a node", TASKENGINE_HANDLER="")

    def test_with_a_host_of_another_version_it_explains_itself(self):
        self.assertGivesUp(b"version 1 of the handler protocol, the host '2,3'", PLUGIN_PROTOCOL_VERSIONS="2,3")

    def test_without_a_handler_it_explains_itself(self):
        self.assertGivesUp(b"has no handler", "-c", "import taskengine; taskengine.run()")

    def test_with_slots_that_are_none_it_explains_itself(self):
        program = "import taskengine as t; t.handler('a')(print); t.run(slots=0)"
        self.assertGivesUp(b"slots is how many", "-c", program)

    def test_without_grpcio_it_explains_itself(self):
        program = "import sys; sys.modules['grpc'] = None; import taskengine as t; t.handler('a')(print); t.run()"
        self.assertGivesUp(b"pip install grpcio", "-c", program)

    def test_without_a_place_for_its_socket_it_explains_itself(self):
        for directory in ("/no/such/place", self.directory.name + "/" + 120 * "x"):
            with self.subTest(directory):
                self.assertGivesUp(b"cannot listen on the socket", PLUGIN_UNIX_SOCKET_DIR=directory)

    def test_it_says_hello_and_answers_pings(self):
        _, host = self.connected(slots=2)
        self.assertEqual((host.hello[2], host.hello[4], host.hello[6]), ([b"python"], [b"v7"], [2]))
        self.assertIn(b"upper", host.hello[5])
        self.assertEqual(host.credits, 2)
        host.say(b"\x28\x05")
        host.wait_for(lambda: host.heard[4] == [5])

    def test_what_it_does_not_serve_is_refused(self):
        _, host = self.connected()
        host.say(h.run(9, "?"))
        self.assertIn(b"does not serve", host.finish(9)[6][0])
        host.wait_for(lambda: host.heard[2] == [1])

    def test_runs_beyond_its_slots_are_refused(self):
        _, host = self.connected(slots=2)
        host.say(*(h.run(n, "hang") for n in (1, 2, 3)))
        self.assertIn(b"runs 2 tasks already", host.finish(3)[6][0])
        self.assertEqual(set(host.finishes), {3})

    def test_it_exits_when_the_host_ends_the_stream(self):
        process, host = self.connected()
        host.end()
        self.assertEqual(process.wait(timeout=h.PATIENCE), 0)

    def test_it_exits_when_the_host_is_gone_though_a_task_hangs(self):
        process, host = self.connected()
        host.say(h.run(1, "hang"))
        host.channel.close()
        self.assertEqual(process.wait(timeout=h.PATIENCE), 0)

    def test_it_exits_when_the_host_is_gone_though_a_coroutine_holds_the_loop(self):
        process, host = self.connected("-c", """if True:
            import sys, time, taskengine
            @taskengine.handler("hold")
            async def hold(task):
                sys.stderr.write("holding\\n")
                sys.stderr.flush()
                time.sleep(3600)
            taskengine.run()
        """)  # fmt: skip
        host.say(h.run(1, "hold"))
        self.wait_for_log(b"holding")
        host.channel.close()
        self.assertEqual(process.wait(timeout=h.PATIENCE), 0)

    def test_a_pool_of_processes_that_import_the_program_runs_none_of_them(self):
        path = os.path.join(self.directory.name, "program.py")
        with open(path, "w", encoding="utf-8") as f:
            f.write("""
import multiprocessing
from concurrent import futures
import taskengine
def square(n):
    return n * n
@taskengine.handler("squares")
def squares(task):
    with futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(task.json())) as pool:
        return list(pool.map(square, [1, 2, 3]))
taskengine.run()
""")
        _, host = self.connected(path)
        for number, method in enumerate(("spawn", "forkserver"), 1):
            host.say(h.run(number, "squares", method))
            self.assertEqual(json.loads(host.result(number)), [1, 4, 9])

    def test_it_exits_though_a_handler_has_closed_the_standard_error(self):
        process, host = self.connected("-c", """if True:
            import sys, time, taskengine
            @taskengine.handler("close")
            async def close(task):
                sys.stderr.close()
                task.progress(1)
                time.sleep(3600)
            taskengine.run()
        """)  # fmt: skip
        host.say(h.run(1, "close"))
        host.wait_for(lambda: host.heard[_wire.PROGRESS])
        host.channel.close()
        self.assertEqual(process.wait(timeout=h.PATIENCE), 0)

    def test_it_exits_when_the_host_is_gone_that_did_not_read(self):
        self.program = "conformance.py"
        process, host = self.connected(slots=200, listen=False)
        line = {"level": "info", "message": "x" * 8000}
        host.say(*(h.run(n, "log", line) for n in range(1, 200)))
        host.say(h.run(200, "print", b"all of them came"))
        self.wait_for_log(b"all of them came")
        host.channel.close()
        self.assertEqual(process.wait(timeout=h.PATIENCE), 0)

    def test_what_it_opened_can_be_closed_after_run(self):
        program = "import taskengine as t; t.handler('a')(print); t.run(); print('closed')"
        process, host = self.connected("-c", program)
        host.end()
        self.assertEqual(process.wait(timeout=h.PATIENCE), 0)
        self.assertIn(b"closed", self.log())

    def test_it_serves_on_the_event_loop_of_the_program(self):
        program = """if True:
            import asyncio, taskengine

            async def main():
                opened = asyncio.get_running_loop()
                @taskengine.handler("same loop")
                async def handle(task):
                    return opened is asyncio.get_running_loop()
                await taskengine.serve()

            asyncio.run(main())
        """
        _, host = self.connected("-c", program)
        host.say(h.run(1, "same loop"))
        self.assertEqual(host.result(1), "true")

    def test_whatever_is_printed_goes_to_the_log(self):
        program = "import taskengine as t; print('before'); t.handler('a')(lambda task: print('within')); t.run()"
        process, host = self.connected("-c", program)
        host.say(h.run(1, "a"))
        self.assertEqual(host.result(1), "")
        self.assertIn(b"before\nwithin\n", self.log())
        host.end()
        self.assertEqual(process.communicate(timeout=h.PATIENCE)[0], b"")

    def test_much_output_keeps_no_task_from_its_answer(self):
        _, host = self.connected()
        host.say(h.run(1, "shout"))
        self.assertEqual(host.result(1), "alive")
        self.assertIn(b"x" * 1000, self.log())


if __name__ == "__main__":
    unittest.main()
