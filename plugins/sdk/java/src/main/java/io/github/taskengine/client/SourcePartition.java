package io.github.taskengine.client;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A partition that a source reads.
 *
 * @param topic of the partition
 * @param partition its number
 * @param position the offset of the next record
 * @param end the offset behind the last record; null: it is not known
 * @param lag how far the position is from the end; null: it is not known
 * @param node that reads it; empty if none does
 * @param message why it is not read at present; empty if it is
 * @param records that were read
 * @param tasks that were added
 * @param unreadable records that could not become tasks
 * @param skipped records that the filter left out, or that had a task already
 * @param lost the newest ranges that it could not read
 * @param taskId of the task that is the partition
 */
public record SourcePartition(
    String topic,
    int partition,
    long position,
    @Nullable Long end,
    @Nullable Long lag,
    String node,
    String message,
    long records,
    long tasks,
    long unreadable,
    long skipped,
    List<SourceLoss> lost,
    String taskId) {
  /** Makes it, with a copy of its list. */
  public SourcePartition {
    lost = List.copyOf(lost);
  }
}
