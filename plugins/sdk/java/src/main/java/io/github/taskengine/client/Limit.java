package io.github.taskengine.client;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A limit as it is in force, as a whole or for one of its values.
 *
 * @param name of the limit
 * @param value a value, or a pattern of values; empty: the limit as a whole
 * @param configured whether the configuration of this node has it
 * @param of the limit above it; empty if there is none
 * @param per the place of the value in a task; empty: one limit for all tasks
 * @param scope node or cluster
 * @param max 0: no limit
 * @param rate null: no limit
 * @param paused whether tasks that count for it are not started
 * @param configuredMax what the configuration says; 0: no limit
 * @param configuredRate what the configuration says; null: no limit
 * @param setting what is set for this name and value; null if nothing is
 * @param inherited what is set for patterns that match, and for the limit as a whole
 * @param used how many slots of it the tasks of this node take
 * @param held with the scope cluster: how many permits this node has
 * @param uses of each node that answered and has the limit, the asked one first; only of {@link
 *     Limits#list} in a cluster
 */
public record Limit(
    String name,
    String value,
    boolean configured,
    String of,
    String per,
    String scope,
    int max,
    @Nullable Rate rate,
    boolean paused,
    int configuredMax,
    @Nullable Rate configuredRate,
    @Nullable LimitSetting setting,
    List<LimitSetting> inherited,
    long used,
    long held,
    List<LimitUse> uses) {
  /** Makes it, with copies of its lists. */
  public Limit {
    uses = List.copyOf(uses);
    inherited = List.copyOf(inherited);
  }
}
