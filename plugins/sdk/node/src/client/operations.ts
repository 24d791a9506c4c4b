// The calls about types, ordering keys, alerts and configurations.

import { create } from "@bufbuild/protobuf";
import {
  AlertSchema,
  AlertSilenceSchema,
  AlertTestSchema,
  AppliedConfigSchema,
  OrderingKeySchema,
  SilentNodeSchema,
  TaskSchema,
  TaskService,
  TypeSchema,
  UnsentAlertsSchema,
} from "../gen/taskengine_pb.js";
import { checkedFilter, taskOf } from "./calls.js";
import { LogCalls } from "./logs.js";
import type {
  AlertSilence,
  Alerts,
  AlertTest,
  AppliedConfig,
  OrderingKey,
  SilentNode,
  Task,
  TaskType,
} from "./messages.js";
import { duration, toNative } from "./native.js";
import type { CallOptions, NewSilence, OrderingKeyFilter } from "./options.js";

export abstract class OperationCalls extends LogCalls {
  /**
   * The types that are configured, were paused or resumed, or have tasks, by name. With a store in files, types that have only
   * ended tasks are left out. If more is true, types that are not configured and have tasks may be left out.
   */
  async types(options?: CallOptions): Promise<{ types: TaskType[]; more: boolean }> {
    const { types, more } = await this.call(TaskService.method.listTypes, () => ({}), options);
    return { types: types.map((type) => toNative(TypeSchema, type)), more };
  }

  /**
   * Keeps tasks of a type from being started on all nodes, also over restarts, until resumeType. Running tasks go on, and new
   * tasks are accepted.
   */
  async pauseType(type: string, options?: CallOptions): Promise<void> {
    await this.call(TaskService.method.pauseType, () => ({ type }), options);
  }

  /** Lets tasks of a type be started again. */
  async resumeType(type: string, options?: CallOptions): Promise<void> {
    await this.call(TaskService.method.resumeType, () => ({ type }), options);
  }

  // --- ordering keys

  /** The ordering keys whose tasks run or wait, in their order. Each page is a call of its own. */
  async *orderingKeys(
    filter: OrderingKeyFilter = {},
    options?: CallOptions,
  ): AsyncGenerator<OrderingKey, void, undefined> {
    const { states = [], behind = false } = checkedFilter(filter);
    let pageToken = "";
    do {
      const page = await this.call(TaskService.method.listKeys, () => ({ states, behind, pageToken }), options);
      for (const key of page.keys) yield toNative(OrderingKeySchema, key);
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /**
   * The tasks of an ordering key that run or wait, without payload and result, in the order in which they run. The first is the
   * head, unless the first task of the key waits for its time. Throws NotFound if there is no task. Each page is a call of
   * its own.
   */
  async *orderingKeyTasks(key: string, options?: CallOptions): AsyncGenerator<Task, void, undefined> {
    let pageToken = "";
    do {
      const page = await this.call(TaskService.method.getKey, () => ({ key, pageToken }), options);
      if (page.head && !pageToken) yield toNative(TaskSchema, page.head);
      for (const task of page.behind) yield toNative(TaskSchema, task);
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /**
   * Resumes the head of an ordering key that is in the state error and stops the key, and returns it. Throws NotAllowed if the
   * head is in another state. The call is not repeated.
   */
  async resumeOrderingKey(key: string, options?: CallOptions): Promise<Task> {
    return taskOf(await this.call(TaskService.method.resumeKey, () => ({ key }), options, false));
  }

  /**
   * Ends the head of an ordering key that is in the state error as failed, so that the next task of the key runs, and returns
   * the head. Throws NotAllowed if it is in another state. The call is not repeated.
   */
  async skipOrderingKey(
    key: string,
    { reason = "", ...options }: CallOptions & { reason?: string } = {},
  ): Promise<Task> {
    return taskOf(await this.call(TaskService.method.skipKey, () => ({ key, reason }), options, false));
  }

  // --- alerts

  /** The alerts of all nodes that share the store, their silences, and the notifications that no target has accepted yet. */
  async alerts(options?: CallOptions): Promise<Alerts> {
    const answer = await this.call(TaskService.method.listAlerts, () => ({}), options);
    return {
      alerts: answer.alerts.map((alert) => toNative(AlertSchema, alert)),
      silences: answer.silences.map((silence) => toNative(AlertSilenceSchema, silence)),
      unsent: answer.unsent.map((one) => toNative(UnsentAlertsSchema, one)),
    };
  }

  /**
   * Keeps alerts out of notifications for a time, on all nodes and over restarts. The end of an alert is sent all the
   * same. The call is not repeated.
   */
  async silenceAlerts(silence: NewSilence, options?: CallOptions): Promise<AlertSilence> {
    const request = () => {
      const { rule = "", labels = {}, lasting, comment = "", by = "" } = silence;
      return { rule, labels: { ...labels }, for: duration(lasting), comment, by };
    };
    const answer = await this.call(TaskService.method.silenceAlerts, request, options, false);
    return toNative(AlertSilenceSchema, answer.silence ?? create(AlertSilenceSchema));
  }

  /** Ends a silence. Throws NotFound if there is none with the id. The call is not repeated. */
  async unsilenceAlerts(id: string, options?: CallOptions): Promise<void> {
    await this.call(TaskService.method.unsilenceAlerts, () => ({ id }), options, false);
  }

  /**
   * Sends a test notification to targets of the configuration of the node, or to all of them without names, once, and returns
   * the outcome for each.
   */
  async testAlerts(targets: string[] = [], options?: CallOptions): Promise<AlertTest[]> {
    const request = () => ({ targets: [...targets] });
    const { tests } = await this.call(TaskService.method.testAlerts, request, options, false);
    return tests.map((test) => toNative(AlertTestSchema, test));
  }

  // --- configuration

  /**
   * Has the node read its configuration file again, as SIGHUP does, or all nodes of the cluster their own files, and returns the
   * outcome of each, by name. Nodes that are silent may have applied theirs. The call is not repeated.
   */
  async applyConfig({ allNodes = false, ...options }: CallOptions & { allNodes?: boolean } = {}): Promise<{
    nodes: AppliedConfig[];
    silent: SilentNode[];
  }> {
    const answer = await this.call(TaskService.method.applyConfig, () => ({ allNodes }), options, false);
    return {
      nodes: answer.nodes.map((node) => toNative(AppliedConfigSchema, node)),
      silent: answer.silent.map((node) => toNative(SilentNodeSchema, node)),
    };
  }
}
