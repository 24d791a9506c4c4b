package io.github.taskengine.client;

import java.util.List;
import java.util.Objects;

/**
 * The errors of which tasks are summed up, see {@link TaskengineClient#errorKinds}: {@code
 * ErrorFilter.all().types("mail").where("since=2h")}.
 *
 * @param types of the tasks; none: any
 * @param where a filter, as in {@link TaskFilter}; if it names no states, only tasks in the state
 *     error count
 * @param limit how many kinds are returned
 */
public record ErrorFilter(List<String> types, String where, int limit) {
  private static final int LIMIT = 100; // as in the API

  /** Checks and copies what is given. */
  public ErrorFilter {
    types = List.copyOf(types);
    Objects.requireNonNull(where, "where");
    if (limit < 1) {
      throw new IllegalArgumentException("the limit is " + limit + ": give 1 or more");
    }
  }

  /**
   * All tasks in the state error.
   *
   * @return the filter, with a limit of 100 kinds
   */
  public static ErrorFilter all() {
    return new ErrorFilter(List.of(), "", LIMIT);
  }

  /**
   * Takes tasks of some types only.
   *
   * @param types their names
   * @return the changed copy
   */
  public ErrorFilter types(String... types) {
    return new ErrorFilter(List.of(types), where, limit);
  }

  /**
   * Takes tasks only that a filter selects.
   *
   * @param where the filter, such as {@code since=2h}
   * @return the changed copy
   */
  public ErrorFilter where(String where) {
    return new ErrorFilter(types, where, limit);
  }

  /**
   * Has another number of kinds returned.
   *
   * @param limit at most 1000
   * @return the changed copy
   */
  public ErrorFilter limit(int limit) {
    return new ErrorFilter(types, where, limit);
  }
}
