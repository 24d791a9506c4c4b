package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;

/** Makes records of the messages about nodes, workers, tokens and the history of waiting. */
final class ClusterMessages {
  private ClusterMessages() {}

  static SilentNode silent(Api.SilentNode s) {
    return new SilentNode(s.getNode(), s.getId(), s.getAddress(), s.getProblem());
  }

  static LimitReasons limitReasons(Api.WhyLimitResponse w) {
    return new LimitReasons(
        Messages.limit(w.getLimit()),
        Messages.all(w.getTasksList(), ClusterMessages::limitTask),
        Messages.all(
            w.getQueuedList(), q -> new LimitQueue(q.getType(), q.getTasks(), q.getNode())),
        w.hasNextStart() ? Times.instant(w.getNextStart()) : null,
        Messages.all(w.getNodesList(), ClusterMessages::limitNode),
        w.getNodesProblem(),
        Messages.all(w.getSilentList(), ClusterMessages::silent));
  }

  private static LimitTask limitTask(Api.LimitTask t) {
    return new LimitTask(
        t.getId(),
        t.getType(),
        t.getSlots(),
        t.hasStartedAt() ? Times.instant(t.getStartedAt()) : null,
        t.getNode());
  }

  private static LimitNode limitNode(Api.LimitNode n) {
    return new LimitNode(
        n.getNode(), n.getHeld(), n.getWant(), n.hasSince() ? Times.instant(n.getSince()) : null);
  }

  static ClusterNode node(Api.Node n) {
    return new ClusterNode(
        n.getName(),
        n.getId(),
        n.getAddress(),
        n.getVersion(),
        n.getLabelsMap(),
        n.getTypesList(),
        n.getDraining(),
        n.getHere(),
        n.hasStatus() ? status(n.getStatus()) : null);
  }

  private static NodeStatus status(Api.NodeStatus s) {
    return new NodeStatus(
        s.hasStartedAt() ? Times.instant(s.getStartedAt()) : null,
        Times.duration(s.getUptime()),
        s.getRolesList(),
        s.getShards(),
        s.getShardsTotal(),
        s.getRunning(),
        s.getSlots(),
        s.getWaiting(),
        s.hasClockAhead() ? Times.duration(s.getClockAhead()) : null,
        Times.duration(s.getClockWithin()),
        s.getWorkers());
  }

  static ClusterWorker worker(Api.Worker w) {
    return new ClusterWorker(
        w.getId(),
        w.getName(),
        w.getHandler(),
        w.getState(),
        w.getSlots(),
        w.getRunning(),
        w.hasConnectedAt() ? Times.instant(w.getConnectedAt()) : null,
        w.getSdk(),
        w.getVersion(),
        w.hasClockAhead() ? Times.duration(w.getClockAhead()) : null,
        w.getNode());
  }

  static Token token(Api.Token t) {
    return new Token(
        t.getName(),
        t.getState(),
        t.getRolesList(),
        t.getTypesList(),
        t.hasCreatedAt() ? Times.instant(t.getCreatedAt()) : null,
        t.getBy(),
        t.hasExpiresAt() ? Times.instant(t.getExpiresAt()) : null,
        t.getInFile(),
        t.hasRotatedAt() ? Times.instant(t.getRotatedAt()) : null,
        t.getRotatedBy(),
        t.hasEarlierUntil() ? Times.instant(t.getEarlierUntil()) : null,
        t.hasRevokedAt() ? Times.instant(t.getRevokedAt()) : null,
        t.getRevokedBy());
  }

  static WaitHistory waits(Api.WhyResponse r) {
    return new WaitHistory(
        Messages.all(r.getWaitsList(), ClusterMessages::wait),
        r.hasNotedSince() ? Times.instant(r.getNotedSince()) : null,
        r.getNode(),
        Messages.all(r.getSilentList(), ClusterMessages::silent));
  }

  private static Wait wait(Api.Wait w) {
    return new Wait(
        w.getCode(),
        w.getText(),
        w.getLimit(),
        w.getValue(),
        Times.duration(w.getTotal()),
        w.hasFrom() ? Times.instant(w.getFrom()) : null,
        w.hasUntil() ? Times.instant(w.getUntil()) : null);
  }
}
