package io.github.taskengine.client;

import java.util.List;

/**
 * Workers by node, without those of the nodes that did not answer.
 *
 * @param workers of the other nodes
 * @param silent that did not answer
 */
public record WorkerList(List<ClusterWorker> workers, List<SilentNode> silent) {
  /** Makes it, with copies of its lists. */
  public WorkerList {
    workers = List.copyOf(workers);
    silent = List.copyOf(silent);
  }
}
