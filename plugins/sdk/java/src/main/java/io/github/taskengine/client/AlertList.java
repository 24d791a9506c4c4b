package io.github.taskengine.client;

import java.util.List;

/**
 * The alerts of all nodes that share the store.
 *
 * @param alerts that fire, or ended without a notification so far, by rule and labels
 * @param silences that have not ended, by their end
 * @param unsent the notifications that no target has accepted yet, the oldest first
 */
public record AlertList(
    List<Alert> alerts, List<AlertSilence> silences, List<UnsentAlerts> unsent) {
  /** Makes it, with copies of its lists. */
  public AlertList {
    alerts = List.copyOf(alerts);
    silences = List.copyOf(silences);
    unsent = List.copyOf(unsent);
  }
}
