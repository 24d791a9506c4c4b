package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;

/** Makes records of the messages about bulk jobs. */
final class BulkMessages {
  private BulkMessages() {}

  static BulkJob job(Api.BulkJob j) {
    return new BulkJob(
        j.getName(),
        j.getPhase(),
        j.getVerb(),
        j.getWhere(),
        j.getTypesList(),
        j.getReason(),
        j.hasAt() ? Times.instant(j.getAt()) : null,
        j.getRate(),
        j.getBy(),
        j.hasOrderedAt() ? Times.instant(j.getOrderedAt()) : null,
        j.hasBegunAt() ? Times.instant(j.getBegunAt()) : null,
        j.hasEndedAt() ? Times.instant(j.getEndedAt()) : null,
        j.getTotal(),
        j.getTotalComplete(),
        j.getChanged(),
        j.getSkipped(),
        j.getRefused(),
        j.getUnclear(),
        j.getRead(),
        Messages.all(j.getRefusalsList(), r -> new BulkRefusal(r.getTaskId(), r.getReason())),
        Messages.all(j.getHistoryList(), BulkMessages::event),
        j.getTaskId(),
        j.getProblem(),
        j.getUndoes());
  }

  private static BulkEvent event(Api.BulkEvent e) {
    return new BulkEvent(
        e.hasAt() ? Times.instant(e.getAt()) : null, e.getBy(), e.getWhat(), e.getReason());
  }

  static BulkPreview preview(Api.PreviewBulkJobResponse p) {
    return new BulkPreview(
        p.getWhere(),
        p.getTasks(),
        p.getComplete(),
        p.getRead(),
        p.getStatesMap(),
        Messages.all(p.getKindsList(), BulkMessages::kind),
        Messages.all(p.getSamplesList(), Messages::task),
        p.getLeftMap(),
        p.getTotal(),
        p.getIndex());
  }

  private static BulkKind kind(Api.BulkKind k) {
    return new BulkKind(k.getKind(), k.getPattern(), k.getTasks(), k.getSample(), k.getError());
  }
}
