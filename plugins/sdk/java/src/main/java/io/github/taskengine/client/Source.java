package io.github.taskengine.client;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A source of tasks: topics of Apache Kafka whose records become tasks. Counts are those of all
 * nodes.
 *
 * @param name of the source
 * @param topics that it reads; empty if it has a pattern
 * @param pattern of the topics that it reads; empty if it has topics
 * @param group the consumer group to which positions are committed for other programs
 * @param paused null if it is not paused
 * @param orders requests that were accepted and are not carried out yet
 * @param problem why it does not read all of its topics; empty if it does
 * @param lag offsets between its positions and the ends of its partitions; null: it is not known of
 *     all partitions
 * @param partitionCount how many partitions it has
 * @param reading partitions that a node reads at present
 * @param records that it has read
 * @param tasks that it has added
 * @param unreadable records that could not become tasks
 * @param skipped records that the filter left out, or that had a task already
 * @param lost offsets of the lost ranges that the partitions keep
 * @param partitions by topic and number; not in lists
 * @param taskId of the task that is the source
 */
public record Source(
    String name,
    List<String> topics,
    String pattern,
    String group,
    @Nullable SourcePause paused,
    int orders,
    String problem,
    @Nullable Long lag,
    int partitionCount,
    int reading,
    long records,
    long tasks,
    long unreadable,
    long skipped,
    long lost,
    List<SourcePartition> partitions,
    String taskId) {
  /** Makes it, with copies of its lists. */
  public Source {
    topics = List.copyOf(topics);
    partitions = List.copyOf(partitions);
  }
}
