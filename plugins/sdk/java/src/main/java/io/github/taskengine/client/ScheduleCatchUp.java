package io.github.taskengine.client;

import java.time.Duration;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * What happens to times at which a schedule could not run.
 *
 * @param policy for which of them a task is added: latest, skip (none) or all; empty is latest
 * @param max of all: how many tasks at most, at most 1000; 0: 100
 * @param window times longer ago are left out; null: no bound
 */
public record ScheduleCatchUp(String policy, int max, @Nullable Duration window) {
  /** Checks and copies what is given. */
  public ScheduleCatchUp {
    Objects.requireNonNull(policy, "policy");
  }
}
