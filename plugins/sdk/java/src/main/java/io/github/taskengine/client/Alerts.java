package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/** Lists alerts, silences and tests them: {@link TaskengineClient#alerts}. */
public final class Alerts {
  private final Calls calls;
  private final long timeout;

  Alerts(Calls calls, long timeout) {
    this.calls = calls;
    this.timeout = timeout;
  }

  /**
   * The alerts of all nodes that share the store.
   *
   * @return the alerts, their silences, and the notifications that no target has accepted yet
   */
  public AlertList list() {
    Api.ListAlertsRequest request = Api.ListAlertsRequest.getDefaultInstance();
    return OperationMessages.alerts(
        calls.make(OperationMethods.LIST_ALERTS, request, true, timeout));
  }

  /**
   * Keeps alerts out of notifications for a time, on all nodes and over restarts. The end of an
   * alert is sent all the same. The call is not repeated.
   *
   * @param rule of the alerts; empty: any, and then there are labels
   * @param labels that an alert must have; a value with * at its end stands for all that begin so
   * @param lasting at most a year
   * @param comment for people; may be empty
   * @param by who asks; may be empty
   * @return the silence
   */
  public AlertSilence silence(
      String rule, Map<String, String> labels, Duration lasting, String comment, String by) {
    Api.SilenceAlertsRequest request =
        Api.SilenceAlertsRequest.newBuilder()
            .setRule(rule)
            .putAllLabels(labels)
            .setFor(Times.duration(lasting))
            .setComment(comment)
            .setBy(by)
            .build();
    return OperationMessages.silence(
        calls.make(OperationMethods.SILENCE_ALERTS, request, false, timeout).getSilence());
  }

  /**
   * Ends a silence. The call is not repeated.
   *
   * @param id of the silence
   * @throws NotFoundException if there is none
   */
  public void unsilence(String id) {
    Api.UnsilenceAlertsRequest request = Api.UnsilenceAlertsRequest.newBuilder().setId(id).build();
    calls.make(OperationMethods.UNSILENCE_ALERTS, request, false, timeout);
  }

  /**
   * Sends a test notification to targets of the configuration of the node, once.
   *
   * @param targets their names; none: all
   * @return the outcome for each
   */
  public List<AlertTest> test(String... targets) {
    Api.TestAlertsRequest request =
        Api.TestAlertsRequest.newBuilder().addAllTargets(List.of(targets)).build();
    Api.TestAlertsResponse answer =
        calls.make(OperationMethods.TEST_ALERTS, request, false, timeout);
    return Messages.all(answer.getTestsList(), OperationMessages::test);
  }
}
