package io.github.taskengine.handler;

import io.github.taskengine.handler.internal.Wire;
import java.util.Set;

/**
 * What the host sent about itself.
 *
 * @param features optional parts of the protocol that it serves
 * @param maxResult bytes of the largest result; 0 if there is no limit
 * @param maxPayload bytes of the largest payload of a task that runs again; 0 if there is no limit
 */
record Host(Set<String> features, long maxResult, long maxPayload) {
  static final String PROGRESS = "progress";
  static final String CHECKPOINT = "checkpoint";
  static final String CHILDREN = "children";
  static final String RERUN = "rerun";
  static final String ENDED = "ended";
  static final String WAIT = "wait"; // it takes waits for signals, and delays of an again
  static final String FAMILY = "family"; // children that a task learns the ends of
  static final String SIGNALS = "signals"; // with the end of an attempt
  static final String CHECK = "check"; // it says which tasks would be refused
  static final String DOCUMENTS = "documents"; // it reads documents, and writes them with the end
  static final String AFTER = "after"; // it adds tasks that run after others
  static final String EARLIER = "earlier"; // it takes answers of sessions that it does not know

  static Host of(Wire.Welcome welcome) {
    return new Host(
        Set.copyOf(welcome.getFeaturesList()),
        welcome.getMaxResultBytes(),
        welcome.getMaxPayloadBytes());
  }

  boolean serves(String feature) {
    return features.contains(feature);
  }

  /** Whether so many bytes are too many for a result. */
  boolean refuses(long bytes) {
    return maxResult != 0 && Long.compareUnsigned(bytes, maxResult) > 0;
  }

  /** Whether so many bytes are too many for the payload of a task that runs again. */
  boolean refusesPayload(long bytes) {
    return maxPayload != 0 && Long.compareUnsigned(bytes, maxPayload) > 0;
  }
}
