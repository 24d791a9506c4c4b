package io.github.taskengine.client;

import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.UUID;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/**
 * Makes UUIDs of version 7 that strictly increase. Their last byte puts them into the shard of the
 * task's keys, as the Go client does it. Any thread may call it.
 */
final class Ids {
  private static final int DRAW = 4096; // random bytes at once: a multiple of 8
  private static final int COUNT_BITS = 12;
  private static final int SHARDS = 0xFF;

  private final LongSupplier clock;
  private final Consumer<byte[]> random;
  private final byte[] drawn = new byte[DRAW]; // guarded by this
  private int used = DRAW; // guarded by this
  private long last; // guarded by this: milliseconds of the newest id, and its count

  Ids() {
    this(System::currentTimeMillis, new SecureRandom()::nextBytes);
  }

  Ids(LongSupplier clock, Consumer<byte[]> random) {
    this.clock = clock;
    this.random = random;
  }

  /** A new id for a task with these keys. */
  String next(String type, String key, String orderingKey) {
    long stamp;
    long tail;
    synchronized (this) {
      stamp = Math.max(Math.max(0, clock.getAsLong()) << COUNT_BITS, last + 1);
      last = stamp;
      if (used == DRAW) {
        random.accept(drawn);
        used = 0;
      }
      tail = 0;
      for (int end = used + Long.BYTES; used < end; used++) {
        tail = tail << 8 | drawn[used] & 0xFF;
      }
    }
    long head = stamp >>> COUNT_BITS << 16 | 0x7000 | stamp & 0xFFF;
    tail = tail & 0x3FFFFFFFFFFFFFFFL | 0x8000000000000000L;
    if (!key.isEmpty() || !orderingKey.isEmpty()) {
      long shard = hash(orderingKey.isEmpty() ? type + "\0" + key : orderingKey);
      tail = tail & ~SHARDS | (shard ^ head >>> 32 ^ head) & SHARDS;
    }
    return new UUID(head, tail).toString();
  }

  /** FNV-1a with 32 bits. */
  private static int hash(String name) {
    int h = 0x811c9dc5;
    for (byte b : name.getBytes(StandardCharsets.UTF_8)) {
      h = (h ^ b & 0xFF) * 0x01000193;
    }
    return h;
  }
}
