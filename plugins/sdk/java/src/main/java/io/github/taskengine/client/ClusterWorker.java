package io.github.taskengine.client;

import java.time.Duration;
import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * A program that has connected to a node to run the tasks of a handler.
 *
 * @param id names it on its node, for as long as the node runs
 * @param name that the program has given itself; several may have the same one
 * @param handler of which it runs the tasks
 * @param state serving; draining: it ends after its running tasks; or lost: its connection broke,
 *     and it may connect again
 * @param slots tasks that it takes of the node at once
 * @param running tasks of the node that it runs
 * @param connectedAt the first time
 * @param sdk the library that it uses, and its version
 * @param version that the program has given itself
 * @param clockAhead of that of the node, about; null: it does not say
 * @param node that it is connected to
 */
public record ClusterWorker(
    String id,
    String name,
    String handler,
    String state,
    int slots,
    int running,
    @Nullable Instant connectedAt,
    String sdk,
    String version,
    @Nullable Duration clockAhead,
    String node) {}
