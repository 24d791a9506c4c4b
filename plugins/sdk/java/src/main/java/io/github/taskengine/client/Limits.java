package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import org.jspecify.annotations.Nullable;

/** Reads and changes limits: {@link TaskengineClient#limits}. */
public final class Limits {
  private final Calls calls;
  private final long timeout;

  Limits(Calls calls, long timeout) {
    this.calls = calls;
    this.timeout = timeout;
  }

  /**
   * All limits as they are in force.
   *
   * @return the limits, and which nodes did not answer
   */
  public LimitList list() {
    Api.ListLimitsRequest request = Api.ListLimitsRequest.getDefaultInstance();
    Api.ListLimitsResponse answer = calls.make(Methods.LIST_LIMITS, request, true, timeout);
    return new LimitList(
        Messages.all(answer.getLimitsList(), Messages::limit),
        Messages.all(answer.getSilentList(), ClusterMessages::silent));
  }

  /**
   * A limit as a whole.
   *
   * @param name of the limit
   * @return the limit
   */
  public Limit get(String name) {
    return get(name, "");
  }

  /**
   * A limit for one of its values.
   *
   * @param name of the limit
   * @param value or a pattern of values; empty: the limit as a whole
   * @return the limit
   */
  public Limit get(String name, String value) {
    Api.GetLimitRequest request =
        Api.GetLimitRequest.newBuilder().setName(name).setValue(value).build();
    return Messages.limit(calls.make(Methods.GET_LIMIT, request, true, timeout).getLimit());
  }

  /**
   * Why a limit as a whole holds tasks up.
   *
   * @param name of the limit
   * @return which tasks and nodes use it, and how many tasks wait for it
   */
  public LimitReasons why(String name) {
    return why(name, "");
  }

  /**
   * Why a limit holds tasks up for one of its values.
   *
   * @param name of the limit
   * @param value of it; empty: the limit as a whole
   * @return which tasks and nodes use it, and how many tasks wait for it
   */
  public LimitReasons why(String name, String value) {
    Api.WhyLimitRequest request =
        Api.WhyLimitRequest.newBuilder().setName(name).setValue(value).build();
    return ClusterMessages.limitReasons(calls.make(Methods.WHY_LIMIT, request, true, timeout));
  }

  /**
   * Changes a limit on all nodes until it is unset.
   *
   * @param name of the limit
   * @param change of it
   * @return the limit after the change
   * @throws ConflictException if the setting is not at the version of the change
   */
  public Limit set(String name, LimitChange change) {
    Api.SetLimitRequest.Builder request =
        Api.SetLimitRequest.newBuilder().setName(name).setValue(change.value()).setBy(change.by());
    if (change.max() != null) {
      request.setMax(change.max());
    }
    if (change.rate() != null) {
      request.setRate(Messages.rate(change.rate()));
    }
    if (change.paused() != null) {
      request.setPaused(change.paused());
    }
    if (change.ifVersion() != null) {
      request.setIfVersion(change.ifVersion());
    }
    boolean isRepeatable = change.ifVersion() == null;
    return Messages.limit(
        calls.make(Methods.SET_LIMIT, request.build(), isRepeatable, timeout).getLimit());
  }

  /**
   * Removes what was set for a limit as a whole.
   *
   * @param name of the limit
   * @return the limit after the change
   */
  public Limit unset(String name) {
    return unset(name, "", null, "");
  }

  /**
   * Removes what was set for a limit.
   *
   * @param name of the limit
   * @param value or a pattern of values; empty: the limit as a whole
   * @param ifVersion only if the setting is at this version; null: any
   * @param by who asks; written to the log of the node
   * @return the limit after the change
   * @throws ConflictException if the setting is not at the version
   */
  public Limit unset(String name, String value, @Nullable Long ifVersion, String by) {
    Api.UnsetLimitRequest.Builder request =
        Api.UnsetLimitRequest.newBuilder().setName(name).setValue(value).setBy(by);
    if (ifVersion != null) {
      request.setIfVersion(ifVersion);
    }
    return Messages.limit(
        calls.make(Methods.UNSET_LIMIT, request.build(), false, timeout).getLimit());
  }
}
