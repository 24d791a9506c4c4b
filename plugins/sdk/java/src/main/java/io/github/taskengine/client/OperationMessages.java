package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;

/** Makes records of the messages about logs, types, ordering keys, alerts and configurations. */
final class OperationMessages {
  private OperationMessages() {}

  static LogLine line(Api.LogLine l, String cursor) {
    return new LogLine(
        l.getAttempt(),
        l.hasTime() ? Times.instant(l.getTime()) : null,
        l.getLevel(),
        l.getMessage(),
        l.getAttrs(),
        l.getDropped(),
        l.getCut(),
        l.getNode(),
        cursor);
  }

  static RanElsewhere elsewhere(Api.RanElsewhere r) {
    return new RanElsewhere(r.getAttempt(), r.getNode(), r.getAlive(), r.getHere());
  }

  static TaskType type(Api.Type t) {
    return new TaskType(
        t.getName(),
        t.getConfigured(),
        t.getHandled(),
        t.getPaused(),
        t.getRunning(),
        t.getNodes(),
        t.getRunByList());
  }

  static OrderingKey key(Api.OrderingKey k) {
    return new OrderingKey(
        k.getKey(),
        k.hasHead() ? Messages.task(k.getHead()) : null,
        k.getBehind(),
        k.getBehindTruncated(),
        k.hasOldestReadyAt() ? Times.instant(k.getOldestReadyAt()) : null);
  }

  static AlertList alerts(Api.ListAlertsResponse r) {
    return new AlertList(
        Messages.all(r.getAlertsList(), OperationMessages::alert),
        Messages.all(r.getSilencesList(), OperationMessages::silence),
        Messages.all(r.getUnsentList(), OperationMessages::unsent));
  }

  private static Alert alert(Api.Alert a) {
    return new Alert(
        a.getRule(),
        a.getWhen(),
        a.getLabelsMap(),
        a.getStatus(),
        a.hasSince() ? Times.instant(a.getSince()) : null,
        a.hasFiredAt() ? Times.instant(a.getFiredAt()) : null,
        a.hasResolvedAt() ? Times.instant(a.getResolvedAt()) : null,
        a.getValue(),
        a.getSummary(),
        a.getDetail(),
        a.getNotifiedList(),
        a.getSilence());
  }

  static AlertSilence silence(Api.AlertSilence s) {
    return new AlertSilence(
        s.getId(),
        s.getRule(),
        s.getLabelsMap(),
        s.hasUntil() ? Times.instant(s.getUntil()) : null,
        s.getComment(),
        s.getBy(),
        s.hasAt() ? Times.instant(s.getAt()) : null);
  }

  private static UnsentAlerts unsent(Api.UnsentAlerts u) {
    return new UnsentAlerts(
        u.getId(),
        u.getTarget(),
        u.getRule(),
        u.getSummary(),
        u.hasAt() ? Times.instant(u.getAt()) : null);
  }

  static AlertTest test(Api.AlertTest t) {
    return new AlertTest(t.getTarget(), t.getProblem(), Times.duration(t.getTook()));
  }

  static AppliedConfig applied(Api.AppliedConfig c) {
    return new AppliedConfig(
        c.getNode(),
        Messages.all(c.getChangesList(), OperationMessages::change),
        c.getProblem(),
        c.getUnchanged());
  }

  private static ConfigChange change(Api.ConfigChange c) {
    return new ConfigChange(c.getKey(), c.getBefore(), c.getAfter(), c.getRestart());
  }
}
