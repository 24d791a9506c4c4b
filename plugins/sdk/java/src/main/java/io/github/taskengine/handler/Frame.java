package io.github.taskengine.handler;

import io.github.taskengine.handler.internal.Wire;
import java.time.Instant;

/** A frame that is being filled. It belongs to the event loop. */
final class Frame {
  private static final int MAX_BYTES = 1 << 20;
  private static final int MAX_MESSAGES = 512;

  private final Wire.FromHandler.Builder frame = Wire.FromHandler.newBuilder();
  private int messages;
  private int bytes;

  /** A part of a frame. It is called on the event loop, and may add nothing. */
  @FunctionalInterface
  interface Part {
    void addTo(Frame frame);
  }

  boolean isEmpty() {
    return messages == 0;
  }

  boolean isFull() {
    return messages >= MAX_MESSAGES || bytes >= MAX_BYTES;
  }

  Wire.FromHandler build() {
    return frame.build();
  }

  void hello(Wire.Hello hello, int credits) {
    frame.setHello(hello).setCredits(credits);
    count(hello.getSerializedSize());
  }

  /** Answers a run, and gives a credit for another. */
  void finish(Wire.Finish finish) {
    frame.addFinishes(finish).setCredits(frame.getCredits() + 1);
    count(finish.getSerializedSize());
  }

  /** Gives credits that belong to no answer. */
  void credits(int credits) {
    frame.setCredits(frame.getCredits() + credits);
    count(0);
  }

  /** Says that a worker takes no more runs. */
  void leaving() {
    frame.setLeaving(true);
    count(0);
  }

  void pong(long number) {
    frame.setPong(number);
    count(0);
  }

  /** Says what the clock of this machine shows. */
  void clock() {
    frame.setClock(Codec.micros(Instant.now()));
    count(0);
  }

  void log(Wire.LogLine line) {
    frame.addLogs(line);
    count(line.getSerializedSize());
  }

  void progress(Wire.Progress progress) {
    frame.addProgress(progress);
    count(progress.getSerializedSize());
  }

  void checkpoint(Wire.Checkpoint checkpoint) {
    frame.addCheckpoints(checkpoint);
    count(checkpoint.getSerializedSize());
  }

  void check(Wire.Check check) {
    frame.addChecks(check);
    count(check.getSerializedSize());
  }

  void read(Wire.ReadDocument read) {
    frame.addReads(read);
    count(read.getSerializedSize());
  }

  private void count(int size) {
    messages++;
    bytes += size;
  }
}
