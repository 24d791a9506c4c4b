package io.github.taskengine.handler;

import io.github.taskengine.handler.internal.Wire;
import java.util.Set;

/**
 * What the host sent about itself.
 *
 * @param features optional parts of the protocol that it serves
 * @param maxResult bytes of the largest result; 0 if there is no limit
 */
record Host(Set<String> features, long maxResult) {
  static final String PROGRESS = "progress";
  static final String HEARTBEAT = "heartbeat";
  static final String CHECKPOINT = "checkpoint";
  static final String CHILDREN = "children";
  static final String SIGNALS = "signals";

  static Host of(Wire.Welcome welcome) {
    return new Host(Set.copyOf(welcome.getFeaturesList()), welcome.getMaxResultBytes());
  }

  boolean serves(String feature) {
    return features.contains(feature);
  }

  /** Whether so many bytes are too many for a result. */
  boolean refuses(long bytes) {
    return maxResult != 0 && Long.compareUnsigned(bytes, maxResult) > 0;
  }
}
