package io.github.taskengine.client;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** The nodes of a client, of which it uses one at a time. Any thread may call them. */
final class Nodes {
  /** Nanoseconds for a connection to one node, before another one is tried. */
  private static final long CONNECT = TimeUnit.SECONDS.toNanos(5);

  private final List<Node> all;
  private int current; // guarded by this: the node that is used
  private @Nullable Node connected; // guarded by this: the node that has answered last
  private @Nullable Failure
      silence; // guarded by this: why the last one that was tried did not answer

  Nodes(List<Node> all) {
    this.all = all;
  }

  /**
   * A node that answers, or null if none does. Unless it has to be sure, a node is taken that has
   * answered before, and may have stopped since.
   */
  @Nullable Node pick(Deadline deadline, boolean isSure) throws InterruptedException {
    if (!isSure) {
      synchronized (this) {
        if (connected != null) {
          return connected;
        }
      }
    }
    for (Node node : inTurn()) {
      Failure why = node.probe(Math.min(CONNECT, deadline.left()));
      synchronized (this) {
        silence = why;
        if (why == null) {
          current = all.indexOf(node);
          connected = node;
          return node;
        }
      }
      node.discard();
      if (deadline.isOver()) {
        break;
      }
    }
    return null;
  }

  private synchronized List<Node> inTurn() {
    List<Node> nodes = new ArrayList<>(all);
    Collections.rotate(nodes, -current);
    return nodes;
  }

  /** Has another node used than the one that has failed. */
  void leave(Node failed) {
    failed.discard();
    synchronized (this) {
      if (connected == failed) {
        connected = null;
      }
      if (all.get(current) == failed) {
        current = (current + 1) % all.size();
      }
    }
  }

  /** The failure of a client that no node answers. */
  synchronized Failure absent() {
    String addresses = all.stream().map(Node::address).collect(Collectors.joining(", "));
    String why = silence == null ? "" : " (" + silence.message() + ")";
    return Failure.unavailable("no node answers at " + addresses + "; is it running?" + why, "");
  }

  void close() {
    all.forEach(Node::close);
  }
}
