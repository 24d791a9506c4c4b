package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import java.util.List;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** Makes records of the messages of the API, and messages of records. */
final class Messages {
  private Messages() {}

  static <M, R> List<R> all(List<M> messages, Function<M, R> make) {
    return messages.stream().map(make).toList();
  }

  static Task task(Api.Task t) {
    return new Task(
        t.getId(),
        t.getType(),
        t.getState(),
        t.getVersion(),
        t.getAttempt(),
        t.getCrashes(),
        t.getPriority(),
        t.getKey(),
        t.getOrderingKey(),
        t.getHeadersMap(),
        t.hasCreatedAt() ? Times.instant(t.getCreatedAt()) : null,
        t.hasReadyAt() ? Times.instant(t.getReadyAt()) : null,
        t.hasNextEventAt() ? Times.instant(t.getNextEventAt()) : null,
        t.hasExpiresAt() ? Times.instant(t.getExpiresAt()) : null,
        t.hasStartedAt() ? Times.instant(t.getStartedAt()) : null,
        t.hasUpdatedAt() ? Times.instant(t.getUpdatedAt()) : null,
        t.getPayload().toByteArray(),
        t.getResult().toByteArray(),
        t.getError(),
        all(t.getHistoryList(), Messages::attempt),
        t.hasProgress() ? progress(t.getProgress()) : null,
        t.getCheckpoint().toByteArray(),
        t.getTurn(),
        t.hasInheritedPriority() ? t.getInheritedPriority() : null,
        t.getTombstone(),
        t.getNode(),
        t.getAwaitsList(),
        t.getWokenBy(),
        t.hasWokenSignal() ? signal(t.getWokenSignal()) : null,
        all(t.getKeptSignalsList(), Messages::signal),
        t.hasParent() ? parent(t.getParent()) : null,
        all(t.getChildrenList(), Messages::children),
        t.hasAfter() ? after(t.getAfter()) : null,
        t.getFollowersList());
  }

  private static After after(Api.After a) {
    return new After(a.getTasksList(), a.getDone(), a.getFailed(), a.getCancelled(), a.getAny());
  }

  private static ReceivedSignal signal(Api.ReceivedSignal s) {
    return new ReceivedSignal(
        s.getName(), s.hasAt() ? Times.instant(s.getAt()) : null, s.getData().toByteArray());
  }

  private static Parent parent(Api.Parent p) {
    return new Parent(p.getId(), p.getName(), p.getIndex());
  }

  private static ChildSet children(Api.ChildSet c) {
    return new ChildSet(
        c.getName(),
        c.getAdded(),
        c.getDone(),
        c.getFailed(),
        c.getCancelled(),
        c.getAwaits(),
        c.getOrFailed(),
        c.getOpen());
  }

  static TreeTask treeTask(Api.TreeTask t) {
    return new TreeTask(task(t.getTask()), t.getDepth());
  }

  static Workflow workflow(Api.Workflow w) {
    return new Workflow(
        w.getName(),
        task(w.getTask()),
        all(w.getStepsList(), Messages::step),
        w.getOutput(),
        w.getRetries());
  }

  private static WorkflowStep step(Api.WorkflowStep s) {
    return new WorkflowStep(
        s.getName(),
        s.getType(),
        s.getState(),
        s.getAfterList(),
        s.getWaitsList(),
        s.getCount(),
        s.getDone(),
        s.getFailed(),
        s.getCancelled(),
        s.getTaskIdsList(),
        s.hasBegan() ? Times.instant(s.getBegan()) : null,
        s.hasEnded() ? Times.instant(s.getEnded()) : null,
        s.getError(),
        s.getSignal(),
        s.hasUntil() ? Times.instant(s.getUntil()) : null,
        s.hasCompensation() ? step(s.getCompensation()) : null);
  }

  private static Attempt attempt(Api.Attempt a) {
    return new Attempt(
        a.getNumber(),
        a.hasStartedAt() ? Times.instant(a.getStartedAt()) : null,
        a.hasEndedAt() ? Times.instant(a.getEndedAt()) : null,
        a.getOutcome(),
        a.getError(),
        a.getNode(),
        a.getBy(),
        a.getJob());
  }

  private static Progress progress(Api.Progress p) {
    return new Progress(
        p.getDone(), p.getTotal(), p.getMessage(), p.hasAt() ? Times.instant(p.getAt()) : null);
  }

  static StateCount count(Api.StateCount c) {
    return new StateCount(c.getState(), c.getType(), c.getCount());
  }

  static ErrorKinds kinds(Api.ListErrorsResponse e) {
    return new ErrorKinds(
        all(e.getKindsList(), Messages::kind),
        e.getTasks(),
        e.getOthers(),
        e.getRead(),
        e.getComplete(),
        e.getIndex(),
        e.getTotal());
  }

  private static ErrorKind kind(Api.ErrorKind k) {
    return new ErrorKind(
        k.getKind(),
        k.getPattern(),
        k.getTasks(),
        k.hasFirst() ? Times.instant(k.getFirst()) : null,
        k.hasLast() ? Times.instant(k.getLast()) : null,
        k.getTypesList(),
        k.getNodesList(),
        k.getSample(),
        k.getError());
  }

  static Reason reason(Api.Reason r) {
    return new Reason(
        r.getCode(),
        r.getText(),
        r.getLimit(),
        r.getValue(),
        r.getUsed(),
        r.getMax(),
        r.hasUntil() ? Times.instant(r.getUntil()) : null,
        r.getHoldersList(),
        r.getCluster(),
        r.getHeld(),
        r.getWaiting(),
        r.getHead(),
        r.getHeadState());
  }

  static Limit limit(Api.Limit l) {
    return new Limit(
        l.getName(),
        l.getValue(),
        l.getConfigured(),
        l.getOf(),
        l.getPer(),
        l.getScope(),
        l.getMax(),
        l.hasRate() ? rate(l.getRate()) : null,
        l.getPaused(),
        l.getConfiguredMax(),
        l.hasConfiguredRate() ? rate(l.getConfiguredRate()) : null,
        l.hasSetting() ? setting(l.getSetting()) : null,
        all(l.getInheritedList(), Messages::setting),
        l.getUsed(),
        l.getHeld(),
        all(l.getUsesList(), u -> new LimitUse(u.getNode(), u.getUsed(), u.getHeld())));
  }

  private static LimitSetting setting(Api.LimitSetting s) {
    return new LimitSetting(
        s.hasMax() ? s.getMax() : null,
        s.hasRate() ? rate(s.getRate()) : null,
        s.getPaused(),
        s.getVersion(),
        s.getBy(),
        s.getNode(),
        s.hasAt() ? Times.instant(s.getAt()) : null,
        s.getValue(),
        s.getProblem());
  }

  private static Rate rate(Api.Rate r) {
    return new Rate(r.getCount(), r.hasPer() ? Times.duration(r.getPer()) : null, r.getBurst());
  }

  static Api.Rate rate(Rate r) {
    Api.Rate.Builder to = Api.Rate.newBuilder().setCount(r.count()).setBurst(r.burst());
    if (r.per() != null) {
      to.setPer(Times.duration(r.per()));
    }
    return to.build();
  }

  static Schedule schedule(Api.Schedule s) {
    return new Schedule(
        s.getName(),
        definition(s.getDefinition()),
        s.hasNext() ? Times.instant(s.getNext()) : null,
        s.hasPaused() ? pause(s.getPaused()) : null,
        s.hasLast() ? fire(s.getLast()) : null,
        s.getFires(),
        s.getMissed(),
        s.getOverlapped(),
        all(s.getWaitingList(), Times::instant),
        all(s.getRunningList(), Messages::fire),
        s.getOrders(),
        s.getTaskId(),
        s.getError(),
        s.getAttempt(),
        s.getVersion());
  }

  static AppliedSchedule applied(Api.AppliedSchedule s) {
    return new AppliedSchedule(
        s.getName(), s.getOutcome(), s.getVersion(), s.getCode(), s.getError());
  }

  static ScheduleFailure failure(Api.ScheduleFailure f) {
    return new ScheduleFailure(f.getName(), f.getError());
  }

  private static SchedulePause pause(Api.SchedulePause p) {
    return new SchedulePause(p.hasSince() ? Times.instant(p.getSince()) : null, p.getReason());
  }

  private static ScheduleFire fire(Api.ScheduleFire f) {
    return new ScheduleFire(f.hasTime() ? Times.instant(f.getTime()) : null, f.getTaskId());
  }

  static Source source(Api.Source s) {
    return new Source(
        s.getName(),
        s.getTopicsList(),
        s.getPattern(),
        s.getGroup(),
        s.hasPaused() ? pause(s.getPaused()) : null,
        s.getOrders(),
        s.getProblem(),
        s.hasLag() ? s.getLag() : null,
        s.getPartitionCount(),
        s.getReading(),
        s.getRecords(),
        s.getTasks(),
        s.getUnreadable(),
        s.getSkipped(),
        s.getLost(),
        all(s.getPartitionsList(), Messages::partition),
        s.getTaskId());
  }

  static SourcePause pause(Api.SourcePause p) {
    return new SourcePause(p.hasSince() ? Times.instant(p.getSince()) : null, p.getReason());
  }

  private static SourcePartition partition(Api.SourcePartition p) {
    return new SourcePartition(
        p.getTopic(),
        p.getPartition(),
        p.getPosition(),
        p.hasEnd() ? p.getEnd() : null,
        p.hasLag() ? p.getLag() : null,
        p.getNode(),
        p.getMessage(),
        p.getRecords(),
        p.getTasks(),
        p.getUnreadable(),
        p.getSkipped(),
        all(p.getLostList(), Messages::loss),
        p.getTaskId());
  }

  private static SourceLoss loss(Api.SourceLoss l) {
    return new SourceLoss(
        l.getBegin(), l.getEnd(), l.hasAt() ? Times.instant(l.getAt()) : null, l.getReason());
  }

  static SourceMove move(Api.SourceMove m) {
    return new SourceMove(m.getTopic(), m.getPartition(), m.getPosition(), m.getTarget());
  }

  static ScheduleTime time(Api.ScheduleTime t) {
    return new ScheduleTime(
        t.hasTime() ? Times.instant(t.getTime()) : null,
        t.getLocal(),
        t.getMovedFrom(),
        t.getRepeated());
  }

  private static ScheduleDefinition definition(Api.ScheduleDefinition d) {
    return new ScheduleDefinition(
        d.getCron(),
        d.getTimezone(),
        d.getGap(),
        d.getRepeat(),
        d.hasEvery() ? Times.duration(d.getEvery()) : null,
        d.hasAnchor() ? Times.instant(d.getAnchor()) : null,
        d.hasStart() ? Times.instant(d.getStart()) : null,
        d.hasEnd() ? Times.instant(d.getEnd()) : null,
        d.hasJitter() ? Times.duration(d.getJitter()) : null,
        d.hasCatchUp() ? catchUp(d.getCatchUp()) : null,
        d.getOverlap(),
        task(d.getTask()));
  }

  private static ScheduleCatchUp catchUp(Api.ScheduleCatchUp c) {
    return new ScheduleCatchUp(
        c.getPolicy(), c.getMax(), c.hasWindow() ? Times.duration(c.getWindow()) : null);
  }

  private static ScheduleTask task(Api.ScheduleTask t) {
    return new ScheduleTask(
        t.getType(),
        t.getPayload(),
        t.hasPriority() ? t.getPriority() : null,
        t.getHeadersMap(),
        t.hasExpires() ? Times.duration(t.getExpires()) : null,
        t.getWorkflow());
  }

  static Api.ScheduleDefinition definition(ScheduleDefinition d) {
    Api.ScheduleDefinition.Builder to =
        Api.ScheduleDefinition.newBuilder()
            .setCron(d.cron())
            .setTimezone(d.timezone())
            .setGap(d.gap())
            .setRepeat(d.repeat())
            .setOverlap(d.overlap())
            .setTask(task(d.task()));
    set(d.every(), Times::duration, to::setEvery);
    set(d.anchor(), Times::timestamp, to::setAnchor);
    set(d.start(), Times::timestamp, to::setStart);
    set(d.end(), Times::timestamp, to::setEnd);
    set(d.jitter(), Times::duration, to::setJitter);
    set(d.catchUp(), Messages::catchUp, to::setCatchUp);
    return to.build();
  }

  private static <R, M> void set(@Nullable R value, Function<R, M> make, Function<M, ?> setter) {
    if (value != null) {
      setter.apply(make.apply(value));
    }
  }

  private static Api.ScheduleCatchUp catchUp(ScheduleCatchUp c) {
    Api.ScheduleCatchUp.Builder to =
        Api.ScheduleCatchUp.newBuilder().setPolicy(c.policy()).setMax(c.max());
    set(c.window(), Times::duration, to::setWindow);
    return to.build();
  }

  private static Api.ScheduleTask task(ScheduleTask t) {
    Api.ScheduleTask.Builder to =
        Api.ScheduleTask.newBuilder()
            .setType(t.type())
            .setPayload(t.payload())
            .putAllHeaders(t.headers())
            .setWorkflow(t.workflow());
    set(t.priority(), p -> p, to::setPriority);
    set(t.expires(), Times::duration, to::setExpires);
    return to.build();
  }
}
