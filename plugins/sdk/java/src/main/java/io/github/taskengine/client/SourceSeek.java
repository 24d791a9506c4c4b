package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import java.time.Instant;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** Where a source goes: to begin, end, a time or an offset. */
public final class SourceSeek {
  private final Consumer<Api.SeekSourceRequest.Builder> target;
  private final String topic;
  private final @Nullable Integer partition;

  private SourceSeek(
      Consumer<Api.SeekSourceRequest.Builder> target, String topic, @Nullable Integer partition) {
    this.target = target;
    this.topic = topic;
    this.partition = partition;
  }

  /**
   * To the first record that there is.
   *
   * @return the seek, in all partitions
   */
  public static SourceSeek begin() {
    return new SourceSeek(r -> r.setBegin(true), "", null);
  }

  /**
   * Behind the last record.
   *
   * @return the seek, in all partitions
   */
  public static SourceSeek end() {
    return new SourceSeek(r -> r.setEnd(true), "", null);
  }

  /**
   * To the first record of a time or later.
   *
   * @param time of the record
   * @return the seek, in all partitions
   */
  public static SourceSeek time(Instant time) {
    return new SourceSeek(r -> r.setTime(Times.timestamp(time)), "", null);
  }

  /**
   * To an offset.
   *
   * @param topic of the partition
   * @param partition its number
   * @param offset 0 or more
   * @return the seek
   */
  public static SourceSeek offset(String topic, int partition, long offset) {
    return new SourceSeek(r -> r.setOffset(offset), topic, partition);
  }

  /**
   * The same in one topic.
   *
   * @param topic whose partitions are moved
   * @return the seek
   */
  public SourceSeek in(String topic) {
    return new SourceSeek(target, topic, null);
  }

  /**
   * The same in one partition.
   *
   * @param topic of the partition
   * @param partition its number
   * @return the seek
   */
  public SourceSeek in(String topic, int partition) {
    return new SourceSeek(target, topic, partition);
  }

  Api.SeekSourceRequest message(String name, boolean dryRun) {
    Api.SeekSourceRequest.Builder to =
        Api.SeekSourceRequest.newBuilder().setName(name).setTopic(topic).setDryRun(dryRun);
    if (partition != null) {
      to.setPartition(partition);
    }
    target.accept(to);
    return to.build();
  }
}
