package io.github.taskengine.handler;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.netty.channel.embedded.EmbeddedChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class LivenessTest {
  private static final long LIFE = TimeUnit.SECONDS.toMicros(10);

  private final EmbeddedChannel channel = new EmbeddedChannel();
  private final Liveness liveness = new Liveness(channel.eventLoop());
  private final List<String> said = new ArrayList<>();

  /** Lets time pass, after which the event loop runs again. */
  private void pass(long seconds) {
    channel.advanceTimeBy(seconds, TimeUnit.SECONDS);
    channel.runScheduledPendingTasks();
  }

  @Test
  void aNodeThatSendsNothingIsSilent() {
    channel.freezeTime();
    liveness.watch(LIFE, said::add);
    for (int i = 0; i < 4; i++) {
      pass(3);
    }
    assertEquals(List.of(), said);
    pass(3);
    assertEquals(List.of("the node was silent for 10000 ms"), said);
    liveness.close();
    pass(100);
    assertEquals(1, said.size());
  }

  @Test
  void aPauseOfTheProcessIsNoSilenceOfTheNode() {
    channel.freezeTime();
    liveness.watch(LIFE, said::add);
    liveness.hear();
    for (int i = 0; i < 10; i++) {
      pass(1000);
      liveness.hear(); // it is read after the checks that are due
    }
    assertEquals(List.of(), said);
  }

  @Test
  void withoutABoundNoNodeIsSilent() {
    channel.freezeTime();
    liveness.watch(0, said::add);
    pass(100_000);
    assertEquals(List.of(), said);
  }
}
