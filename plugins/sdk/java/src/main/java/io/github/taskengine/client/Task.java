package io.github.taskengine.client;

import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A task with its state and history. Times that are not known are null.
 *
 * @param id of the task
 * @param type of the task
 * @param state waiting, submitted, processing, done, error, failed or cancelled
 * @param version grows by one with every change
 * @param attempt how many times it was started since the count was last reset
 * @param crashes how many attempts in a row ended with a crash of their process or node
 * @param priority 0 (sooner) to 9 (later)
 * @param key unique among the tasks of its type; empty if it has none
 * @param orderingKey tasks that share it run one at a time; empty if it has none
 * @param headers of the task
 * @param createdAt when it was added
 * @param readyAt when it could first run
 * @param nextEventAt when the engine acts on it next: its start, its next attempt or its removal
 * @param expiresAt when it becomes an error if it has not begun
 * @param startedAt when its newest attempt began
 * @param updatedAt when it changed last
 * @param payload the input of its handler; empty in lists
 * @param result of its handler; empty in lists
 * @param error why it is not done
 * @param history the attempts that ended without finishing it, the oldest first, at most 20
 * @param progress the newest that its newest attempt has reported
 * @param checkpoint what an attempt has stored for the next one; empty in lists
 * @param turn of a task with an ordering key: head or behind; empty if it takes no part in the
 *     order
 * @param inheritedPriority the priority with which a head runs, if its type inherits; null if that
 *     is its own
 * @param tombstone whether the task is done and its payload, result, headers, checkpoint, progress
 *     and history were removed: only its key is remembered
 * @param node the name of the node that runs it, or that ran its newest attempt; empty before the
 *     first
 * @param awaits the names of the signals that it waits for, until nextEventAt; taskengine.children
 *     if it waits for children
 * @param wokenBy what ended its newest wait: signal, children, timeout or user; empty if it has not
 *     waited, or has done its work since
 * @param wokenSignal the signal that ended it; null if none did, and in lists
 * @param keptSignals that came before it waited for them, the oldest first; empty in lists
 * @param parent the task that learns of its end; null if none does
 * @param children that it has added, by their names; empty in lists
 * @param after the tasks after which it runs; null if there are none, and in lists
 * @param followers the ids of the tasks that run after it; empty in lists
 */
public record Task(
    String id,
    String type,
    String state,
    long version,
    int attempt,
    int crashes,
    int priority,
    String key,
    String orderingKey,
    Map<String, String> headers,
    @Nullable Instant createdAt,
    @Nullable Instant readyAt,
    @Nullable Instant nextEventAt,
    @Nullable Instant expiresAt,
    @Nullable Instant startedAt,
    @Nullable Instant updatedAt,
    byte[] payload,
    byte[] result,
    String error,
    List<Attempt> history,
    @Nullable Progress progress,
    byte[] checkpoint,
    String turn,
    @Nullable Integer inheritedPriority,
    boolean tombstone,
    String node,
    List<String> awaits,
    String wokenBy,
    @Nullable ReceivedSignal wokenSignal,
    List<ReceivedSignal> keptSignals,
    @Nullable Parent parent,
    List<ChildSet> children,
    @Nullable After after,
    List<String> followers) {
  /** Makes it, with copies of its lists. */
  public Task {
    headers = Map.copyOf(headers);
    history = List.copyOf(history);
    awaits = List.copyOf(awaits);
    keptSignals = List.copyOf(keptSignals);
    children = List.copyOf(children);
    followers = List.copyOf(followers);
  }

  /**
   * Whether the task has ended.
   *
   * @return true if it is done, error, failed or cancelled
   */
  public boolean hasEnded() {
    return switch (state) {
      case "done", "error", "failed", "cancelled" -> true;
      default -> false;
    };
  }
}
