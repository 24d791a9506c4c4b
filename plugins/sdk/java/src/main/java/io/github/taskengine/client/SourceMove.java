package io.github.taskengine.client;

/**
 * What a seek does to a partition. If target is less than position, the source reads the offsets
 * between them again; if it is more, it leaves them out.
 *
 * @param topic of the partition
 * @param partition its number
 * @param position before the seek
 * @param target the position after it
 */
public record SourceMove(String topic, int partition, long position, long target) {}
