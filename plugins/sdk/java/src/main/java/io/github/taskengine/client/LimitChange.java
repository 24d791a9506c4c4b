package io.github.taskengine.client;

import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * What is changed of a limit: {@code LimitChange.none().value("acme").max(5).by("eve")}. Each
 * method but the accessors returns a copy with one thing changed.
 *
 * @param value a value, or a pattern of values, of the limit; empty: the limit as a whole
 * @param max 0: no limit; null: as it is
 * @param rate with a count of 0: no limit; null: as it is
 * @param paused whether tasks that count for it are not started; null: as it is
 * @param ifVersion the change is made only if the setting is at this version, and 0 is that nothing
 *     is set; null: any
 * @param by who asks; kept with the setting
 */
public record LimitChange(
    String value,
    @Nullable Integer max,
    @Nullable Rate rate,
    @Nullable Boolean paused,
    @Nullable Long ifVersion,
    String by) {
  /** Checks and copies what is given. */
  public LimitChange {
    Objects.requireNonNull(value, "value");
    Objects.requireNonNull(by, "by");
  }

  /**
   * A change of the limit as a whole, of nothing.
   *
   * @return the change
   */
  public static LimitChange none() {
    return new LimitChange("", null, null, null, null, "");
  }

  /**
   * Changes the limit for one of its values.
   *
   * @param value or a pattern of values
   * @return the changed copy
   */
  public LimitChange value(String value) {
    return new LimitChange(value, max, rate, paused, ifVersion, by);
  }

  /**
   * Changes how many slots there are.
   *
   * @param max 0: no limit
   * @return the changed copy
   */
  public LimitChange max(int max) {
    return new LimitChange(value, max, rate, paused, ifVersion, by);
  }

  /**
   * Changes how many tasks may start in a time.
   *
   * @param rate with a count of 0: no limit
   * @return the changed copy
   */
  public LimitChange rate(Rate rate) {
    return new LimitChange(value, max, rate, paused, ifVersion, by);
  }

  /**
   * Pauses the limit, or ends a pause.
   *
   * @param paused whether tasks that count for it are not started
   * @return the changed copy
   */
  public LimitChange paused(boolean paused) {
    return new LimitChange(value, max, rate, paused, ifVersion, by);
  }

  /**
   * Makes the change only if the setting is at a version, and throws a ConflictException otherwise.
   *
   * @param ifVersion the version; 0 is that nothing is set
   * @return the changed copy
   */
  public LimitChange ifVersion(long ifVersion) {
    return new LimitChange(value, max, rate, paused, ifVersion, by);
  }

  /**
   * Says who asks.
   *
   * @param by kept with the setting
   * @return the changed copy
   */
  public LimitChange by(String by) {
    return new LimitChange(value, max, rate, paused, ifVersion, by);
  }
}
