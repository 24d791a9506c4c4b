package io.github.taskengine.client;

import java.util.List;
import java.util.Objects;
import java.util.function.Function;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * A part of a list.
 *
 * @param items of the part
 * @param next the token of the part after it; null at the end
 */
record Page<T>(List<T> items, @Nullable String next) {
  static <T> Page<T> of(List<T> items, String next) {
    return new Page<>(items, next.isEmpty() ? null : next);
  }

  /** All items. A part is asked for when it is needed. */
  static <T> Stream<T> all(Function<String, Page<T>> call) {
    Page<T> before = new Page<>(List.of(), "");
    return Stream.iterate(
            before, Objects::nonNull, page -> page.next() == null ? null : call.apply(page.next()))
        .flatMap(page -> page.items().stream());
  }
}
