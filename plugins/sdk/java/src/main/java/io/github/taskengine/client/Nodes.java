package io.github.taskengine.client;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** The nodes of a client, of which it uses one at a time. Any thread may call them. */
final class Nodes {
  private final List<Node> all;
  private int current; // guarded by this: the node that is used
  private @Nullable Node connected; // guarded by this: the node that has answered last

  Nodes(List<Node> all) {
    this.all = all;
  }

  /**
   * A node that answers, or null if none does. Unless it has to be sure, a node is taken that has
   * answered before, and may have stopped since.
   */
  @Nullable Node pick(Deadline deadline, Patience patience, boolean isSure)
      throws InterruptedException {
    if (!isSure) {
      synchronized (this) {
        if (connected != null && !connected.isSuspect()) {
          return connected;
        }
      }
    }
    for (Node node : inTurn()) {
      long wait = Math.min(patience.probe(), deadline.left());
      if (node.isAlive(wait, new CompletableFuture<>())) {
        synchronized (this) {
          current = all.indexOf(node);
          connected = node;
        }
        return node;
      }
      if (deadline.isOver()) {
        break;
      }
    }
    return null;
  }

  /** Whether there is more than one node. */
  boolean hasOthers() {
    return all.size() > 1;
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
  Failure absent() {
    String addresses = all.stream().map(Node::described).collect(Collectors.joining(", "));
    return Failure.unavailable("no node answers at " + addresses + "; is it running?", "");
  }

  void close() {
    all.forEach(Node::close);
  }
}
