package io.github.taskengine.handler;

import io.github.taskengine.handler.internal.Wire;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What a worker keeps of a session, so that nothing is lost with a connection. It belongs to the
 * event loop.
 */
final class Kept {
  private final Deque<Wire.Finish> sent = new ArrayDeque<>(); // that may not have arrived
  private final Set<Long> waiting = new LinkedHashSet<>(); // runs that are refused: not yet sent
  private final Map<Long, Run> answered = new HashMap<>(); // whose answers may not have arrived
  private final List<Wire.Finish> earlier = new ArrayList<>(); // of sessions that are over
  private long arrived; // answers of the session
  private int session;
  private int strays; // runs that were cut off and have not returned

  /** Notes that the answer of a run that never began is to be sent. */
  void waits(long runId) {
    waiting.add(runId);
  }

  void sent(Wire.Finish finish) {
    waiting.remove(finish.getRunId());
    sent.add(finish);
  }

  void answered(Run run) {
    answered.put(run.runId(), run);
  }

  /** Notes that so many answers of the session have arrived in all. */
  void acknowledge(long arrived) {
    for (; this.arrived < arrived && !sent.isEmpty(); this.arrived++) {
      answered.remove(sent.remove().getRunId());
    }
  }

  /** The runs whose answers may not have arrived, but for those that run. */
  List<Long> runs() {
    List<Long> runs = new ArrayList<>(waiting);
    sent.stream().filter(f -> !f.hasEarlier()).forEach(f -> runs.add(f.getRunId()));
    return runs;
  }

  /** The answers that were sent and may not have arrived, in the order of sending. */
  List<Wire.Finish> unacknowledged() {
    return List.copyOf(sent);
  }

  /** How many answers are to be sent whose runs do not run. */
  int unsent() {
    return sent.size() + waiting.size();
  }

  /** The number of the session. */
  int session() {
    return session;
  }

  /** The runs whose answers may not have arrived. */
  List<Run> answered() {
    return List.copyOf(answered.values());
  }

  /** Whether there are answers that were sent and may not have arrived. */
  boolean hasAnswers() {
    return !sent.isEmpty() || !earlier.isEmpty();
  }

  /** Takes the answers of sessions that are over into this one, if the node takes them. */
  void adopt(boolean takes) {
    if (takes) {
      sent.addAll(earlier);
    }
    earlier.clear();
  }

  /** Another session begins. The answers are kept for a node that does not know this one. */
  void forget() {
    for (Wire.Finish finish : sent) {
      Run run = answered.get(finish.getRunId());
      if (run != null) {
        earlier.add(run.earlier(finish));
      } else if (finish.hasEarlier()) {
        earlier.add(finish);
      } // else it was refused
    }
    sent.clear();
    waiting.clear();
    answered.clear();
    arrived = 0;
    session++;
  }

  void strayed() {
    strays++;
  }

  void returned() {
    strays--;
  }

  int strays() {
    return strays;
  }
}
