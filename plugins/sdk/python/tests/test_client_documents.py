"""Documents, with both clients, against a real node."""

import time
import uuid
from datetime import datetime, timedelta, timezone

from taskengine.client import AsyncClient, Conflict, Invalid, NotFound

from .node import NodeTest
from .test_client import on_both


class Documents(NodeTest):
    async def with_async(self, test):
        async with AsyncClient([self.node.address]) as c:
            await test(self, c)

    @on_both
    async def test_a_document_is_written_read_listed_and_deleted(self, c):
        prefix = "cart-%s-" % uuid.uuid4()
        keys = [prefix + key for key in ("a", "ä", "b%")]
        expires = datetime(2100, 1, 1, tzinfo=timezone.utc)
        first = await c.set_document(keys[0], {"items": [1, "ü"]}, expires_at=expires, by="anna")
        self.assertEqual((first.key, first.data, first.expires_at), (keys[0], b"", expires))
        found = await c.document(keys[0])
        self.assertEqual(found.data, b'{"items":[1,"\\u00fc"]}')
        self.assertEqual((found.version, found.size), (first.version, len(found.data)))
        self.assertLess(abs(datetime.now(timezone.utc) - found.created_at), timedelta(hours=1))
        await c.set_document(keys[1], b"\xff\x00")
        self.assertEqual((await c.document(keys[1])).data, b"\xff\x00")
        empty = await c.set_document(keys[2], None)
        self.assertEqual((await c.document(keys[2])).data, b"")
        self.assertIsNone(empty.expires_at)
        listed = [d async for d in c.documents(prefix)]
        self.assertEqual([d.key for d in listed], sorted(keys, key=str.encode))
        self.assertEqual((listed[0].version, listed[0].size, listed[0].data), (first.version, found.size, b""))
        await c.delete_document(keys[0], by="anna")
        for missing in (c.document(keys[0]), c.delete_document(keys[0])):
            with self.assertRaises(NotFound):
                await missing
        with self.assertRaises(Invalid):
            await c.set_document("", b"x")
        with self.assertRaises(Invalid):
            await c.set_document(prefix, b"x" * (256 * 1024 + 1))

    @on_both
    async def test_a_document_of_another_version_is_not_changed(self, c):
        key = "cart-%s" % uuid.uuid4()
        with self.assertRaises(Conflict):
            await c.set_document(key, "x", if_version=7)
        first = await c.set_document(key, "1", if_version=0)
        with self.assertRaises(Conflict):
            await c.set_document(key, "x", if_version=0)
        second = await c.set_document(key, "2", if_version=first.version)
        self.assertGreater(second.version, first.version)
        self.assertEqual(second.created_at, first.created_at)
        for stale in (
            c.set_document(key, "x", if_version=first.version),
            c.delete_document(key, if_version=first.version),
        ):
            with self.assertRaises(Conflict):
                await stale
        self.assertEqual((await c.document(key)).data, b"2")
        await c.delete_document(key, if_version=second.version)
        again = await c.set_document(key, "3", if_version=0)
        self.assertGreater(again.version, 0)
        self.assertNotIn(again.version, (first.version, second.version))

    @on_both
    async def test_all_pages_of_documents_are_listed(self, c):
        prefix = "page-%s-" % uuid.uuid4()
        keys = [prefix + "%03d" % i for i in range(130)]
        for key in reversed(keys):
            await c.set_document(key, key)
        self.assertEqual([d.key async for d in c.documents(prefix)], keys)

    @on_both
    async def test_a_document_that_has_expired_does_not_exist(self, c):
        key = "brief-%s" % uuid.uuid4()
        await c.set_document(key, "x", expires_at=time.time() + 0.2)
        while True:
            try:
                await c.document(key)
            except NotFound:
                return
