package io.github.taskengine.client;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * How many tasks may start in a time.
 *
 * @param count 0: no limit
 * @param per the time
 * @param burst how many may start at once after a pause; 0: count
 */
public record Rate(int count, @Nullable Duration per, int burst) {

  /**
   * A rate whose burst is its count.
   *
   * @param count how many tasks may start
   * @param per in which time
   * @return the rate
   */
  public static Rate of(int count, Duration per) {
    return new Rate(count, per, 0);
  }
}
