"""What both clients have for nodes, workers, tokens and the history of waiting."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

from . import _cluster_calls
from ._calls import Call
from ._cluster_messages import NewSecret, Node, NodeList, Token, WaitHistory, WorkerList
from ._requests import Id, Seconds

T = TypeVar("T")


class Cluster:
    """The methods of the client that blocks."""

    def _call(self, call: Call[T], timeout: float | None = None) -> T:
        raise NotImplementedError

    def nodes(self, node: str = "", *, timeout: float | None = None) -> NodeList:
        """The nodes of the cluster that are alive, by name, or those with a name or an id, and which of them did not
        answer."""
        return self._call(_cluster_calls.nodes(node), timeout)

    def drain_node(self, node: str, *, by: str = "", timeout: float | None = None) -> Node:
        """Has a node, by its name or id, stop after its running tasks, and returns it as it was announced."""
        return self._call(_cluster_calls.drain_node(node, by), timeout)

    def workers(self, *, timeout: float | None = None) -> WorkerList:
        """The workers of all nodes, by node, and which nodes did not answer."""
        return self._call(_cluster_calls.workers(), timeout)

    def drain_worker(self, worker: str, *, timeout: float | None = None) -> WorkerList:
        """Has a worker, by its id, or all with a name, end after their running tasks. Returns those that end now, and the
        nodes that have drained none, because they did not answer. It may be repeated."""
        return self._call(_cluster_calls.drain_worker(worker), timeout)

    def wait_history(self, id: Id, *, timeout: float | None = None) -> WaitHistory:
        """How long a task has waited for what."""
        return self._call(_cluster_calls.wait_history(id), timeout)

    # --- tokens, which only tokens with the role admin for all types manage

    def add_token(
        self,
        name: str,
        roles: Iterable[str],
        types: Iterable[str] = (),
        *,
        expires_in: Seconds | None = None,
        by: str = "",
        timeout: float | None = None,
    ) -> NewSecret:
        """Makes a token that the nodes accept within about a second: for tasks of types, where * at the end of one stands
        for all that begin so, or for all. Its secret is kept nowhere. Raises AlreadyExists if a valid token has the name.
        The call is not repeated: without an answer the token may be there, and rotate_token gives it another secret."""
        return self._call(_cluster_calls.add_token(name, roles, types, expires_in, by), timeout)

    def tokens(self, *, revoked: bool = False, timeout: float | None = None) -> list[Token]:
        """The tokens of the cluster by name, and then those of the file of the node. With revoked also those that were
        revoked or have expired in the last 30 days."""
        return self._call(_cluster_calls.tokens(revoked), timeout)

    def revoke_token(self, name: str, *, force: bool = False, by: str = "", timeout: float | None = None) -> Token:
        """Has the nodes refuse a token within about a second. The last valid token that may manage tokens is revoked with
        force alone. Revoking it again changes nothing."""
        return self._call(_cluster_calls.revoke_token(name, force, by), timeout)

    def rotate_token(
        self, name: str, *, grace: Seconds | None = None, by: str = "", timeout: float | None = None
    ) -> NewSecret:
        """Gives a token another secret. The one from before is accepted for the time of grace. The call is not repeated."""
        return self._call(_cluster_calls.rotate_token(name, grace, by), timeout)

    def revoke_sessions(self, person: str, *, by: str = "", timeout: float | None = None) -> datetime:
        """Ends all sessions that a person, by the name in audit lines, has begun at the dashboard before a time, which it returns:
        the present. Every node refuses them within about a second, and the person may log in again. Raises NotAllowed if
        people do not log in at an identity provider."""
        return self._call(_cluster_calls.revoke_sessions(person, by), timeout)


class AsyncCluster:
    """The methods of the client for coroutines."""

    async def _call(self, call: Call[T], timeout: float | None = None) -> T:
        raise NotImplementedError

    async def nodes(self, node: str = "", *, timeout: float | None = None) -> NodeList:
        """The nodes of the cluster that are alive, by name, or those with a name or an id, and which of them did not
        answer."""
        return await self._call(_cluster_calls.nodes(node), timeout)

    async def drain_node(self, node: str, *, by: str = "", timeout: float | None = None) -> Node:
        """Has a node, by its name or id, stop after its running tasks, and returns it as it was announced."""
        return await self._call(_cluster_calls.drain_node(node, by), timeout)

    async def workers(self, *, timeout: float | None = None) -> WorkerList:
        """The workers of all nodes, by node, and which nodes did not answer."""
        return await self._call(_cluster_calls.workers(), timeout)

    async def drain_worker(self, worker: str, *, timeout: float | None = None) -> WorkerList:
        """Has a worker, by its id, or all with a name, end after their running tasks. Returns those that end now, and the
        nodes that have drained none, because they did not answer. It may be repeated."""
        return await self._call(_cluster_calls.drain_worker(worker), timeout)

    async def wait_history(self, id: Id, *, timeout: float | None = None) -> WaitHistory:
        """How long a task has waited for what."""
        return await self._call(_cluster_calls.wait_history(id), timeout)

    # --- tokens, which only tokens with the role admin for all types manage

    async def add_token(
        self,
        name: str,
        roles: Iterable[str],
        types: Iterable[str] = (),
        *,
        expires_in: Seconds | None = None,
        by: str = "",
        timeout: float | None = None,
    ) -> NewSecret:
        """Makes a token that the nodes accept within about a second: for tasks of types, where * at the end of one stands
        for all that begin so, or for all. Its secret is kept nowhere. Raises AlreadyExists if a valid token has the name.
        The call is not repeated: without an answer the token may be there, and rotate_token gives it another secret."""
        return await self._call(_cluster_calls.add_token(name, roles, types, expires_in, by), timeout)

    async def tokens(self, *, revoked: bool = False, timeout: float | None = None) -> list[Token]:
        """The tokens of the cluster by name, and then those of the file of the node. With revoked also those that were
        revoked or have expired in the last 30 days."""
        return await self._call(_cluster_calls.tokens(revoked), timeout)

    async def revoke_token(
        self, name: str, *, force: bool = False, by: str = "", timeout: float | None = None
    ) -> Token:
        """Has the nodes refuse a token within about a second. The last valid token that may manage tokens is revoked with
        force alone. Revoking it again changes nothing."""
        return await self._call(_cluster_calls.revoke_token(name, force, by), timeout)

    async def rotate_token(
        self, name: str, *, grace: Seconds | None = None, by: str = "", timeout: float | None = None
    ) -> NewSecret:
        """Gives a token another secret. The one from before is accepted for the time of grace. The call is not repeated."""
        return await self._call(_cluster_calls.rotate_token(name, grace, by), timeout)

    async def revoke_sessions(self, person: str, *, by: str = "", timeout: float | None = None) -> datetime:
        """Ends all sessions that a person, by the name in audit lines, has begun at the dashboard before a time, which it returns:
        the present. Every node refuses them within about a second, and the person may log in again. Raises NotAllowed if
        people do not log in at an identity provider."""
        return await self._call(_cluster_calls.revoke_sessions(person, by), timeout)
