package io.github.taskengine.client;

import com.google.protobuf.Duration;
import com.google.protobuf.Timestamp;
import java.time.Instant;

/** Times as the API and as Java represent them. */
final class Times {
  private static final int NANOS = 1_000_000_000; // in a second

  private Times() {}

  static Timestamp timestamp(Instant at) {
    return Timestamp.newBuilder().setSeconds(at.getEpochSecond()).setNanos(at.getNano()).build();
  }

  static Instant instant(Timestamp at) {
    return Instant.ofEpochSecond(at.getSeconds(), at.getNanos());
  }

  /** A duration, whose seconds and nanoseconds have the same sign in the API. */
  static Duration duration(java.time.Duration d) {
    long seconds = d.getSeconds();
    int nanos = d.getNano();
    if (seconds < 0 && nanos > 0) {
      seconds++;
      nanos -= NANOS;
    }
    return Duration.newBuilder().setSeconds(seconds).setNanos(nanos).build();
  }

  static java.time.Duration duration(Duration d) {
    return java.time.Duration.ofSeconds(d.getSeconds(), d.getNanos());
  }
}
