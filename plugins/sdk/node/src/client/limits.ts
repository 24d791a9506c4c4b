// The calls about limits.

import {
  LimitSchema,
  RateSchema,
  SilentNodeSchema,
  TaskService,
  WhyLimitResponseSchema,
} from "../gen/taskengine_pb.js";
import { Caller } from "./caller.js";
import { limitOf } from "./calls.js";
import type { Limit, LimitReasons, SilentNode } from "./messages.js";
import { fromNative, toNative } from "./native.js";
import type { CallOptions, LimitChange } from "./options.js";

export abstract class LimitCalls extends Caller {
  /** All limits as they are in force. The uses of nodes that are silent are missing. */
  async limits(options?: CallOptions): Promise<{ limits: Limit[]; silent: SilentNode[] }> {
    const answer = await this.call(TaskService.method.listLimits, () => ({}), options);
    return {
      limits: answer.limits.map((limit) => toNative(LimitSchema, limit)),
      silent: answer.silent.map((node) => toNative(SilentNodeSchema, node)),
    };
  }

  /** A limit, as a whole or for one of its values. */
  async limit(name: string, value = "", options?: CallOptions): Promise<Limit> {
    return limitOf(await this.call(TaskService.method.getLimit, () => ({ name, value }), options));
  }

  /** Why a limit, as a whole or for one of its values, holds tasks up: which tasks and nodes use it, and how many tasks wait for it. */
  async whyLimit(name: string, value = "", options?: CallOptions): Promise<LimitReasons> {
    const answer = await this.call(TaskService.method.whyLimit, () => ({ name, value }), options);
    return { ...toNative(WhyLimitResponseSchema, answer), limit: limitOf(answer) };
  }

  /**
   * Changes a limit on all nodes until it is unset. What is left out stays as it is. With ifVersion it is changed only if
   * its setting is at that version, and throws Conflict otherwise.
   */
  async setLimit(name: string, change: LimitChange, options?: CallOptions): Promise<Limit> {
    const request = () => {
      const { value = "", max, rate, paused, ifVersion, by = "" } = change;
      return {
        ...{ name, value, by },
        ...(max !== undefined && { max }),
        ...(rate !== undefined && { rate: fromNative(RateSchema, rate) }),
        ...(paused !== undefined && { paused }),
        ...(ifVersion !== undefined && { ifVersion: BigInt(ifVersion) }),
      };
    };
    return limitOf(await this.call(TaskService.method.setLimit, request, options, change.ifVersion === undefined));
  }

  /** Removes what setLimit has set. */
  async unsetLimit(
    name: string,
    { value = "", by = "", ifVersion, ...options }: CallOptions & Pick<LimitChange, "value" | "by" | "ifVersion"> = {},
  ): Promise<Limit> {
    const request = () => ({ name, value, by, ...(ifVersion !== undefined && { ifVersion: BigInt(ifVersion) }) });
    return limitOf(await this.call(TaskService.method.unsetLimit, request, options, false));
  }
}
