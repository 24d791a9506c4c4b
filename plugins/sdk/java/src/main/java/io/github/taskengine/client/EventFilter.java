package io.github.taskengine.client;

import java.util.List;
import java.util.Objects;

/**
 * Which events are followed: {@code EventFilter.all().types("mail").after(cursor)}.
 *
 * @param where a filter of the tasks after their change, without terms of payloads and results;
 *     empty: any
 * @param types of the tasks; none: any
 * @param cursor of an earlier event, a time in RFC 3339 or a duration such as 1h; empty: the
 *     present
 * @param isCaughtUp whether the tasks follow a gap that have changed since it began, as the store
 *     has them
 */
public record EventFilter(String where, List<String> types, String cursor, boolean isCaughtUp) {
  /** Checks and copies what is given. */
  public EventFilter {
    Objects.requireNonNull(where, "where");
    types = List.copyOf(types);
    Objects.requireNonNull(cursor, "cursor");
  }

  /**
   * All changes from the present on.
   *
   * @return the filter
   */
  public static EventFilter all() {
    return new EventFilter("", List.of(), "", false);
  }

  /**
   * Takes tasks only that a filter selects after their change.
   *
   * @param where the filter, such as {@code state=error type=pay*}
   * @return the changed copy
   */
  public EventFilter where(String where) {
    return new EventFilter(where, types, cursor, isCaughtUp);
  }

  /**
   * Takes tasks of some types only.
   *
   * @param types their names
   * @return the changed copy
   */
  public EventFilter types(String... types) {
    return new EventFilter(where, List.of(types), cursor, isCaughtUp);
  }

  /**
   * Goes on after an event.
   *
   * @param cursor of the event, a time in RFC 3339 or a duration such as 1h
   * @return the changed copy
   */
  public EventFilter after(String cursor) {
    return new EventFilter(where, types, cursor, isCaughtUp);
  }

  /**
   * Has the tasks follow a gap that have changed since it began, as the store has them.
   *
   * @return the changed copy
   */
  public EventFilter caughtUp() {
    return new EventFilter(where, types, cursor, true);
  }
}
