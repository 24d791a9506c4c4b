package io.github.taskengine.client;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * A node that has permits of a limit, or waits for some.
 *
 * @param node its name; empty if the node that answers does not know it
 * @param held how many permits it has
 * @param want how many permits it wants to have in all
 * @param since when it last got permits, or if it has none, since when it waits
 */
public record LimitNode(String node, long held, long want, @Nullable Instant since) {}
