package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;

/** Makes records of the messages about time slices. */
final class SliceMessages {
  private SliceMessages() {}

  static SliceSource source(Api.SliceSource s) {
    return new SliceSource(
        s.getName(),
        s.getType(),
        s.getPlatformCount(),
        s.hasLowWater() ? Times.instant(s.getLowWater()) : null,
        s.hasCursorLag() ? Times.duration(s.getCursorLag()) : null,
        s.getRunning(),
        s.getFailed(),
        s.getStopped(),
        s.getPaused(),
        s.getProblems(),
        s.getOrders(),
        s.getProblem(),
        s.getTaskId(),
        Messages.all(s.getValuesList(), SliceMessages::setting),
        Messages.all(s.getHistoryList(), SliceMessages::change),
        s.getOnlyOn(),
        s.getVersion());
  }

  static Platform platform(Api.Platform p) {
    return new Platform(
        p.getSource(),
        p.getName(),
        p.hasCursor() ? Times.instant(p.getCursor()) : null,
        p.hasLowWater() ? Times.instant(p.getLowWater()) : null,
        p.hasCursorLag() ? Times.duration(p.getCursorLag()) : null,
        p.hasNext() ? Times.instant(p.getNext()) : null,
        p.getRunning(),
        p.getFailed(),
        p.hasStopped() ? stop(p.getStopped()) : null,
        p.hasPaused() ? Messages.pause(p.getPaused()) : null,
        p.getRemoved(),
        p.getOrders(),
        p.getProblem(),
        p.getMade(),
        p.getDone(),
        p.getGivenUp(),
        p.getTaskId(),
        Messages.all(p.getSettingsList(), SliceMessages::setting),
        Messages.all(p.getSlicesList(), SliceMessages::slice),
        Messages.all(p.getHistoryList(), SliceMessages::change),
        p.getVersion(),
        p.getOwnMap(),
        p.getConfigured());
  }

  static AppliedPlatform applied(Api.AppliedPlatform p) {
    return new AppliedPlatform(
        p.getName(), p.getOutcome(), p.getVersion(), p.getCode(), p.getError());
  }

  static Api.PlatformRow row(PlatformRow r) {
    Api.PlatformRow.Builder row =
        Api.PlatformRow.newBuilder()
            .setName(r.name())
            .putAllValues(r.values())
            .setReplace(r.isReplaced())
            .setRemoved(r.isRemoved());
    if (r.ifVersion() != null) {
      row.setIfVersion(r.ifVersion());
    }
    return row.build();
  }

  private static PlatformStop stop(Api.PlatformStop s) {
    return new PlatformStop(
        s.hasSince() ? Times.instant(s.getSince()) : null,
        s.hasNext() ? Times.instant(s.getNext()) : null,
        s.getProbes());
  }

  private static SliceSetting setting(Api.SliceSetting s) {
    return new SliceSetting(s.getName(), s.getValue(), s.getFrom());
  }

  private static SliceChange change(Api.SliceChange c) {
    return new SliceChange(c.hasAt() ? Times.instant(c.getAt()) : null, c.getBy(), c.getWhat());
  }

  private static OpenSlice slice(Api.OpenSlice s) {
    return new OpenSlice(
        s.hasStart() ? Times.instant(s.getStart()) : null,
        s.hasEnd() ? Times.instant(s.getEnd()) : null,
        s.hasFailedAt() ? Times.instant(s.getFailedAt()) : null,
        s.getTaskId());
  }
}
