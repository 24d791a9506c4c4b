package io.github.taskengine.client;

import java.util.List;
import java.util.Objects;

/**
 * Which tasks are listed or counted: {@code TaskFilter.all().types("mail").states("error")}.
 *
 * @param states of the tasks; none: any
 * @param types of the tasks; none: any
 * @param key of the tasks; empty: any
 * @param where a filter in the language of the command line; empty: any
 */
public record TaskFilter(List<String> states, List<String> types, String key, String where) {
  /** Checks and copies what is given. */
  public TaskFilter {
    states = List.copyOf(states);
    types = List.copyOf(types);
    Objects.requireNonNull(key, "key");
    Objects.requireNonNull(where, "where");
  }

  /**
   * All tasks.
   *
   * @return the filter
   */
  public static TaskFilter all() {
    return new TaskFilter(List.of(), List.of(), "", "");
  }

  /**
   * Takes tasks in some states only.
   *
   * @param states such as error
   * @return the changed copy
   */
  public TaskFilter states(String... states) {
    return new TaskFilter(List.of(states), types, key, where);
  }

  /**
   * Takes tasks of some types only.
   *
   * @param types their names
   * @return the changed copy
   */
  public TaskFilter types(String... types) {
    return new TaskFilter(states, List.of(types), key, where);
  }

  /**
   * Takes tasks with a key only, whatever their ordering keys are.
   *
   * @param key the key. {@link TaskengineClient#count} does not take one
   * @return the changed copy
   */
  public TaskFilter key(String key) {
    return new TaskFilter(states, types, key, where);
  }

  /**
   * Takes tasks only that a filter selects.
   *
   * @param where the filter, such as {@code error~"503" since=2h}. {@link TaskengineClient#count}
   *     does not take one
   * @return the changed copy
   */
  public TaskFilter where(String where) {
    return new TaskFilter(states, types, key, where);
  }
}
