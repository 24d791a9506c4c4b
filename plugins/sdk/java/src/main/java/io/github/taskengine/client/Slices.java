package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Reads and orders sources of time slices and their platforms: {@link TaskengineClient#slices}.
 * Orders are durable when the call returns, and carried out when orders of {@link #platform} is 0.
 */
public final class Slices {
  private static final int PAGE = 1000; // platforms

  private final Calls calls;
  private final long timeout;

  Slices(Calls calls, long timeout) {
    this.calls = calls;
    this.timeout = timeout;
  }

  /**
   * The sources of time slices in the configuration of the node.
   *
   * @return the sources by name, without their values and history
   */
  public List<SliceSource> sources() {
    Api.ListSliceSourcesRequest request = Api.ListSliceSourcesRequest.getDefaultInstance();
    return Messages.all(
        calls.make(SliceMethods.LIST_SLICE_SOURCES, request, true, timeout).getSourcesList(),
        SliceMessages::source);
  }

  /**
   * A source of time slices.
   *
   * @param name of the source
   * @return the source with its values and its history
   */
  public SliceSource source(String name) {
    Api.GetSliceSourceRequest request =
        Api.GetSliceSourceRequest.newBuilder().setName(name).build();
    return SliceMessages.source(
        calls.make(SliceMethods.GET_SLICE_SOURCE, request, true, timeout).getSource());
  }

  /**
   * Platforms of a source, also removed ones. Each page of them is a call of its own, which is made
   * when it is needed.
   *
   * @param source its name
   * @param prefix with which the names of the platforms begin; may be empty
   * @return the platforms by name
   */
  public Stream<Platform> platforms(String source, String prefix) {
    Api.ListPlatformsRequest request =
        Api.ListPlatformsRequest.newBuilder()
            .setSource(source)
            .setPrefix(prefix)
            .setLimit(PAGE)
            .build();
    return Page.all(
        token -> {
          Api.ListPlatformsResponse page =
              calls.make(
                  SliceMethods.LIST_PLATFORMS,
                  request.toBuilder().setPageToken(token).build(),
                  true,
                  timeout);
          return Page.of(
              Messages.all(page.getPlatformsList(), SliceMessages::platform),
              page.getNextPageToken());
        });
  }

  /**
   * A platform.
   *
   * @param source its name
   * @param platform its name
   * @return the platform with its settings, its open slices and its history
   */
  public Platform platform(String source, String platform) {
    Api.GetPlatformRequest request =
        Api.GetPlatformRequest.newBuilder().setSource(source).setPlatform(platform).build();
    return SliceMessages.platform(
        calls.make(SliceMethods.GET_PLATFORM, request, true, timeout).getPlatform());
  }

  /**
   * Sets values of a platform or, without one, of all platforms of the source that have none of
   * their own.
   *
   * @param source its name
   * @param platform its name; empty: all of the source
   * @param values as texts of a configuration, by their names; an empty text unsets a value
   * @param order who gives the order, and why
   * @return the platform; null for a source
   */
  public @Nullable Platform set(
      String source, String platform, Map<String, String> values, SliceOrder order) {
    Api.SetSlicesRequest request =
        Api.SetSlicesRequest.newBuilder()
            .setSource(source)
            .setPlatform(platform)
            .putAllValues(values)
            .setBy(order.by())
            .setReason(order.reason())
            .build();
    Api.SetSlicesResponse answer = calls.make(SliceMethods.SET_SLICES, request, true, timeout);
    return answer.hasPlatform() ? SliceMessages.platform(answer.getPlatform()) : null;
  }

  /**
   * Adds a platform to a source, or one again that was removed: it goes on at its cursor.
   *
   * @param source its name
   * @param platform its name
   * @param order who gives the order, and why
   * @return the platform
   */
  public Platform add(String source, String platform, SliceOrder order) {
    return add(source, platform, Map.of(), order);
  }

  /**
   * Adds a platform to a source, or one again that was removed: it goes on at its cursor. Its first
   * slice has the values.
   *
   * @param source its name
   * @param platform its name
   * @param values of its own, as in {@link #set}
   * @param order who gives the order, and why
   * @return the platform
   */
  public Platform add(
      String source, String platform, Map<String, String> values, SliceOrder order) {
    Api.AddPlatformRequest request =
        Api.AddPlatformRequest.newBuilder()
            .setSource(source)
            .setPlatform(platform)
            .putAllValues(values)
            .setBy(order.by())
            .setReason(order.reason())
            .build();
    return SliceMessages.platform(
        calls.make(SliceMethods.ADD_PLATFORM, request, true, timeout).getPlatform());
  }

  /**
   * Adds, changes and removes platforms, 1000 with each call. Platforms without a row stay as they
   * are. Each row is applied by itself. After an error the same call applies the rest.
   *
   * @param source its name
   * @param rows how the platforms are to be
   * @param order who gives the order, and why
   * @return the effect on each, in their order
   * @throws InvalidException if a row cannot be: none of its call is applied
   */
  public List<AppliedPlatform> apply(String source, List<PlatformRow> rows, SliceOrder order) {
    return apply(
        rows,
        Api.ApplyPlatformsRequest.newBuilder()
            .setSource(source)
            .setBy(order.by())
            .setReason(order.reason())
            .build());
  }

  /**
   * The effects that {@link #apply} would have. It changes nothing.
   *
   * @param source its name
   * @param rows how the platforms are to be
   * @return the effect on each, in their order
   * @throws InvalidException if a row cannot be
   */
  public List<AppliedPlatform> preview(String source, List<PlatformRow> rows) {
    return apply(
        rows, Api.ApplyPlatformsRequest.newBuilder().setSource(source).setDryRun(true).build());
  }

  private List<AppliedPlatform> apply(List<PlatformRow> rows, Api.ApplyPlatformsRequest of) {
    List<AppliedPlatform> done = new ArrayList<>();
    for (int i = 0; i < rows.size(); i += PAGE) {
      Api.ApplyPlatformsRequest.Builder request = of.toBuilder();
      List<PlatformRow> part = rows.subList(i, Math.min(rows.size(), i + PAGE));
      part.forEach(row -> request.addPlatforms(SliceMessages.row(row)));
      done.addAll(
          Messages.all(
              calls
                  .make(SliceMethods.APPLY_PLATFORMS, request.build(), true, timeout)
                  .getPlatformsList(),
              SliceMessages::applied));
    }
    return List.copyOf(done);
  }

  /**
   * Stops a platform from making slices until {@link #add}. Its open slices go on.
   *
   * @param source its name
   * @param platform its name
   * @param order who gives the order, and why
   * @return the platform
   */
  public Platform remove(String source, String platform, SliceOrder order) {
    Api.RemovePlatformRequest request =
        Api.RemovePlatformRequest.newBuilder()
            .setSource(source)
            .setPlatform(platform)
            .setBy(order.by())
            .setReason(order.reason())
            .build();
    return SliceMessages.platform(
        calls.make(SliceMethods.REMOVE_PLATFORM, request, true, timeout).getPlatform());
  }

  /**
   * Stops a platform or, without one, all platforms of the source from making slices until {@link
   * #resume}.
   *
   * @param source its name
   * @param platform its name; empty: all of the source
   * @param order who gives the order, and why
   * @return the platform; null for a source
   */
  public @Nullable Platform pause(String source, String platform, SliceOrder order) {
    Api.PauseSlicesRequest request =
        Api.PauseSlicesRequest.newBuilder()
            .setSource(source)
            .setPlatform(platform)
            .setBy(order.by())
            .setReason(order.reason())
            .build();
    Api.PauseSlicesResponse answer = calls.make(SliceMethods.PAUSE_SLICES, request, true, timeout);
    return answer.hasPlatform() ? SliceMessages.platform(answer.getPlatform()) : null;
  }

  /**
   * Ends pauses, as {@link #pause} begins them.
   *
   * @param source its name
   * @param platform its name; empty: all of the source
   * @param order who gives the order, and why
   * @return the platform; null for a source
   */
  public @Nullable Platform resume(String source, String platform, SliceOrder order) {
    Api.ResumeSlicesRequest request =
        Api.ResumeSlicesRequest.newBuilder()
            .setSource(source)
            .setPlatform(platform)
            .setBy(order.by())
            .setReason(order.reason())
            .build();
    Api.ResumeSlicesResponse answer =
        calls.make(SliceMethods.RESUME_SLICES, request, true, timeout);
    return answer.hasPlatform() ? SliceMessages.platform(answer.getPlatform()) : null;
  }

  /**
   * Moves the cursor of a platform: slices are made from there on, also of times that had slices
   * before. The call is not repeated.
   *
   * @param source its name
   * @param platform its name
   * @param from where the cursor is; null: anywhere
   * @param to where it goes
   * @param order who gives the order, and why
   * @return the platform
   * @throws ConflictException if the cursor is not at from; nothing changes then
   */
  public Platform reset(
      String source, String platform, @Nullable Instant from, Instant to, SliceOrder order) {
    Api.ResetPlatformRequest.Builder request =
        Api.ResetPlatformRequest.newBuilder()
            .setSource(source)
            .setPlatform(platform)
            .setTo(Times.timestamp(to))
            .setBy(order.by())
            .setReason(order.reason());
    if (from != null) {
      request.setFrom(Times.timestamp(from));
    }
    return SliceMessages.platform(
        calls.make(SliceMethods.RESET_PLATFORM, request.build(), false, timeout).getPlatform());
  }

  /**
   * Has the failed slices of a platform or, without one, of all platforms of the source run again:
   * those with a part between from and until. The call is not repeated.
   *
   * @param source its name
   * @param platform its name; empty: all of the source
   * @param from null is no bound
   * @param until null is no bound
   * @param order who gives the order, and why
   * @return the platform; null for a source
   */
  public @Nullable Platform retry(
      String source,
      String platform,
      @Nullable Instant from,
      @Nullable Instant until,
      SliceOrder order) {
    Api.RetrySlicesResponse answer =
        retry(
            Api.RetrySlicesRequest.newBuilder().setSource(source).setPlatform(platform),
            from,
            until,
            order);
    return answer.hasPlatform() ? SliceMessages.platform(answer.getPlatform()) : null;
  }

  /**
   * Stops platforms of a source from making slices until they are resumed.
   *
   * @param source its name
   * @param prefix with which the names of the platforms begin
   * @param order who gives the order, and why
   */
  public void pauseAll(String source, String prefix, SliceOrder order) {
    Api.PauseSlicesRequest request =
        Api.PauseSlicesRequest.newBuilder()
            .setSource(source)
            .setPrefix(prefix)
            .setBy(order.by())
            .setReason(order.reason())
            .build();
    calls.make(SliceMethods.PAUSE_SLICES, request, true, timeout);
  }

  /**
   * Ends pauses of platforms of a source.
   *
   * @param source its name
   * @param prefix with which the names of the platforms begin
   * @param order who gives the order, and why
   */
  public void resumeAll(String source, String prefix, SliceOrder order) {
    Api.ResumeSlicesRequest request =
        Api.ResumeSlicesRequest.newBuilder()
            .setSource(source)
            .setPrefix(prefix)
            .setBy(order.by())
            .setReason(order.reason())
            .build();
    calls.make(SliceMethods.RESUME_SLICES, request, true, timeout);
  }

  /**
   * Has the failed slices of platforms of a source run again: those with a part between from and
   * until. The call is not repeated.
   *
   * @param source its name
   * @param prefix with which the names of the platforms begin
   * @param from null is no bound
   * @param until null is no bound
   * @param order who gives the order, and why
   */
  public void retryAll(
      String source,
      String prefix,
      @Nullable Instant from,
      @Nullable Instant until,
      SliceOrder order) {
    retry(
        Api.RetrySlicesRequest.newBuilder().setSource(source).setPrefix(prefix),
        from,
        until,
        order);
  }

  private Api.RetrySlicesResponse retry(
      Api.RetrySlicesRequest.Builder request,
      @Nullable Instant from,
      @Nullable Instant until,
      SliceOrder order) {
    request.setBy(order.by()).setReason(order.reason());
    if (from != null) {
      request.setFrom(Times.timestamp(from));
    }
    if (until != null) {
      request.setUntil(Times.timestamp(until));
    }
    return calls.make(SliceMethods.RETRY_SLICES, request.build(), false, timeout);
  }
}
