package io.github.taskengine.client;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The status that a node reports of itself.
 *
 * @param startedAt by its clock
 * @param uptime since then
 * @param roles that it has in the cluster
 * @param shards of which it starts the tasks
 * @param shardsTotal how many there are
 * @param running tasks with a slot
 * @param slots that its tasks may take at once; 0: as many as there are tasks
 * @param waiting ready tasks in its memory; the store may have more
 * @param clockAhead of that of the cluster; null: the cluster has none of its own
 * @param clockWithin the bound of the error of clockAhead
 * @param workers that are connected to it
 */
public record NodeStatus(
    @Nullable Instant startedAt,
    Duration uptime,
    List<String> roles,
    int shards,
    int shardsTotal,
    int running,
    int slots,
    long waiting,
    @Nullable Duration clockAhead,
    Duration clockWithin,
    int workers) {
  /** Makes it, with a copy of its list. */
  public NodeStatus {
    roles = List.copyOf(roles);
  }
}
