package io.github.taskengine.client;

import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * How {@link Slices#apply} makes a platform: {@code PlatformRow.of("north").values(values)}.
 *
 * @param name of the platform
 * @param values of its own, as texts of a configuration, by their names
 * @param isReplaced whether values of its own that are not in values are unset
 * @param isRemoved whether it makes no slices; otherwise it is added if there is none, or if it was
 *     removed
 * @param ifVersion the version that it must have, 0 if there must be none; null: any
 */
public record PlatformRow(
    String name,
    Map<String, String> values,
    boolean isReplaced,
    boolean isRemoved,
    @Nullable Long ifVersion) {
  /** Checks and copies what is given. */
  public PlatformRow {
    Objects.requireNonNull(name, "name");
    values = Map.copyOf(values);
  }

  /**
   * A platform that is there.
   *
   * @param name of the platform
   * @return the row
   */
  public static PlatformRow of(String name) {
    return new PlatformRow(name, Map.of(), false, false, null);
  }

  /**
   * Gives the platform values. Its other values stay.
   *
   * @param values by their names; an empty text unsets a value
   * @return the changed copy
   */
  public PlatformRow values(Map<String, String> values) {
    return new PlatformRow(name, values, isReplaced, isRemoved, ifVersion);
  }

  /**
   * Has values of the platform unset that are not in the row.
   *
   * @return the changed copy
   */
  public PlatformRow replaced() {
    return new PlatformRow(name, values, true, isRemoved, ifVersion);
  }

  /**
   * Has the platform make no slices.
   *
   * @return the changed copy
   */
  public PlatformRow removed() {
    return new PlatformRow(name, values, isReplaced, true, ifVersion);
  }

  /**
   * Changes the platform only if it has a version.
   *
   * @param version the version; 0 if there must be no such platform
   * @return the changed copy
   */
  public PlatformRow ifVersion(long version) {
    return new PlatformRow(name, values, isReplaced, isRemoved, version);
  }
}
