package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;

/**
 * Reads and drains the nodes of the cluster and their workers, and has nodes read their
 * configurations again: {@link TaskengineClient#cluster}.
 */
public final class Cluster {
  private final Calls calls;
  private final long timeout;

  Cluster(Calls calls, long timeout) {
    this.calls = calls;
    this.timeout = timeout;
  }

  /**
   * The nodes that are alive.
   *
   * @return the nodes, and which of them did not answer
   */
  public NodeList nodes() {
    return nodes("");
  }

  /**
   * The nodes that are alive, by a name or an id.
   *
   * @param node its name or its id
   * @return the nodes, and which of them did not answer
   */
  public NodeList nodes(String node) {
    Api.ListNodesRequest request = Api.ListNodesRequest.newBuilder().setNode(node).build();
    Api.ListNodesResponse answer = calls.make(ClusterMethods.LIST_NODES, request, true, timeout);
    return new NodeList(
        Messages.all(answer.getNodesList(), ClusterMessages::node),
        Messages.all(answer.getSilentList(), ClusterMessages::silent));
  }

  /**
   * Has a node stop after its running tasks. The call is not repeated.
   *
   * @param node its name or its id
   * @param by who asks; may be empty
   * @return the node as it was announced
   */
  public ClusterNode drainNode(String node, String by) {
    Api.DrainNodeRequest request =
        Api.DrainNodeRequest.newBuilder().setNode(node).setBy(by).build();
    return ClusterMessages.node(
        calls.make(ClusterMethods.DRAIN_NODE, request, false, timeout).getNode());
  }

  /**
   * The workers of all nodes.
   *
   * @return the workers, and which nodes did not answer
   */
  public WorkerList workers() {
    Api.ListWorkersRequest request = Api.ListWorkersRequest.getDefaultInstance();
    Api.ListWorkersResponse answer =
        calls.make(ClusterMethods.LIST_WORKERS, request, true, timeout);
    return new WorkerList(
        Messages.all(answer.getWorkersList(), ClusterMessages::worker),
        Messages.all(answer.getSilentList(), ClusterMessages::silent));
  }

  /**
   * Has workers end after their running tasks. It may be repeated.
   *
   * @param worker an id, or a name that several may have
   * @return those that end now, and the nodes that have drained none, because they did not answer
   */
  public WorkerList drainWorker(String worker) {
    Api.DrainWorkerRequest request = Api.DrainWorkerRequest.newBuilder().setWorker(worker).build();
    Api.DrainWorkerResponse answer =
        calls.make(ClusterMethods.DRAIN_WORKER, request, true, timeout);
    return new WorkerList(
        Messages.all(answer.getWorkersList(), ClusterMessages::worker),
        Messages.all(answer.getSilentList(), ClusterMessages::silent));
  }

  /**
   * Has the node read its configuration file again, as SIGHUP does, or all nodes their own files.
   * The call is not repeated.
   *
   * @param allNodes whether all nodes of the cluster do so
   * @return the outcome of each, by name, and the nodes that did not answer
   */
  public ConfigList applyConfig(boolean allNodes) {
    Api.ApplyConfigRequest request =
        Api.ApplyConfigRequest.newBuilder().setAllNodes(allNodes).build();
    Api.ApplyConfigResponse answer =
        calls.make(OperationMethods.APPLY_CONFIG, request, false, timeout);
    return new ConfigList(
        Messages.all(answer.getNodesList(), OperationMessages::applied),
        Messages.all(answer.getSilentList(), ClusterMessages::silent));
  }
}
