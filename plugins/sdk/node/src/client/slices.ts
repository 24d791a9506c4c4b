// The calls about time slices. Orders are durable when the call returns, and carried out when orders of platform() is 0.

import {
  AppliedPlatformSchema,
  PlatformRowSchema,
  PlatformSchema,
  SliceSourceSchema,
  TaskService,
} from "../gen/taskengine_pb.js";
import { anyPlatformOf, platformOf, sliceSourceOf } from "./calls.js";
import type { AppliedPlatform, Platform, SliceSource } from "./messages.js";
import { fromNative, timestamp, toNative } from "./native.js";
import type { CallOptions, PlatformRow, SliceOrder, SliceTarget, SliceTargets } from "./options.js";
import { SourceCalls } from "./sources.js";

const APPLIED = 1000; // platforms in one call of applyPlatforms

export abstract class SliceCalls extends SourceCalls {
  /** The sources of time slices in the configuration of the node, by name, without their values and history. */
  async sliceSources(options?: CallOptions): Promise<SliceSource[]> {
    const { sources } = await this.call(TaskService.method.listSliceSources, () => ({}), options);
    return sources.map((source) => toNative(SliceSourceSchema, source));
  }

  /** A source of time slices with its values and its history. */
  async sliceSource(name: string, options?: CallOptions): Promise<SliceSource> {
    return sliceSourceOf(await this.call(TaskService.method.getSliceSource, () => ({ name }), options));
  }

  /**
   * The platforms of a source with names that begin with prefix, by name, also removed ones. Each page is a call of its own.
   */
  async *platforms(source: string, prefix = "", options?: CallOptions): AsyncGenerator<Platform, void, undefined> {
    let pageToken = "";
    do {
      const request = () => ({ source, prefix, limit: 1000, pageToken });
      const page = await this.call(TaskService.method.listPlatforms, request, options);
      for (const platform of page.platforms) yield toNative(PlatformSchema, platform);
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /** A platform with its settings, its open slices and its history. */
  async platform(source: string, platform: string, options?: CallOptions): Promise<Platform> {
    return platformOf(await this.call(TaskService.method.getPlatform, () => ({ source, platform }), options));
  }

  /**
   * Sets values of a platform or, without one, of all platforms of the source that have none of their own: as texts of a
   * configuration, by their names. An empty text unsets a value. Returns the platform, and undefined for a source.
   */
  async setSlices(
    source: string,
    values: Record<string, string>,
    { platform = "", by = "", reason = "", ...options }: CallOptions & SliceTarget = {},
  ): Promise<Platform | undefined> {
    const request = () => ({ source, platform, values: { ...values }, by, reason });
    return anyPlatformOf(await this.call(TaskService.method.setSlices, request, options));
  }

  /**
   * Adds a platform to a source, or one again that was removed: it goes on at its cursor. Its first slice has the values,
   * which are its own, as in setSlices.
   */
  async addPlatform(
    source: string,
    platform: string,
    {
      values = {},
      by = "",
      reason = "",
      ...options
    }: CallOptions & SliceOrder & { values?: Record<string, string> } = {},
  ): Promise<Platform> {
    const request = () => ({ source, platform, values: { ...values }, by, reason });
    return platformOf(await this.call(TaskService.method.addPlatform, request, options));
  }

  /**
   * Adds, changes and removes platforms, 1000 with each call, and returns the effect on each; with dryRun the effects that
   * there would be. A call with a row that cannot be throws Invalid and changes nothing; otherwise each row is applied by
   * itself. After an error the same call applies the rest.
   */
  async applyPlatforms(
    source: string,
    platforms: readonly PlatformRow[],
    { dryRun = false, by = "", reason = "", ...options }: CallOptions & SliceOrder & { dryRun?: boolean } = {},
  ): Promise<AppliedPlatform[]> {
    const done: AppliedPlatform[] = [];
    for (let i = 0; i < platforms.length; i += APPLIED) {
      const request = () => ({
        ...{ source, dryRun, by, reason },
        platforms: platforms.slice(i, i + APPLIED).map((row) => fromNative(PlatformRowSchema, row)),
      });
      const answer = await this.call(TaskService.method.applyPlatforms, request, options);
      done.push(...answer.platforms.map((one) => toNative(AppliedPlatformSchema, one)));
    }
    return done;
  }

  /** Stops a platform from making slices until addPlatform. Its open slices go on. */
  async removePlatform(
    source: string,
    platform: string,
    { by = "", reason = "", ...options }: CallOptions & SliceOrder = {},
  ): Promise<Platform> {
    const request = () => ({ source, platform, by, reason });
    return platformOf(await this.call(TaskService.method.removePlatform, request, options));
  }

  /**
   * Stops a platform or, without one, all platforms of the source with names that begin with prefix from making slices until
   * resumeSlices.
   */
  async pauseSlices(
    source: string,
    { platform = "", prefix = "", by = "", reason = "", ...options }: CallOptions & SliceTargets = {},
  ): Promise<Platform | undefined> {
    const request = () => ({ source, platform, prefix, by, reason });
    return anyPlatformOf(await this.call(TaskService.method.pauseSlices, request, options));
  }

  /** Ends pauses, as pauseSlices begins them. */
  async resumeSlices(
    source: string,
    { platform = "", prefix = "", by = "", reason = "", ...options }: CallOptions & SliceTargets = {},
  ): Promise<Platform | undefined> {
    const request = () => ({ source, platform, prefix, by, reason });
    return anyPlatformOf(await this.call(TaskService.method.resumeSlices, request, options));
  }

  /**
   * Moves the cursor of a platform: slices are made from there on, also of times that had slices before. Throws Conflict, and
   * changes nothing, if `from` is given and the cursor is not there. The call is not repeated.
   */
  async resetPlatform(
    source: string,
    platform: string,
    to: Date | number,
    { from, by = "", reason = "", ...options }: CallOptions & SliceOrder & { from?: Date | number } = {},
  ): Promise<Platform> {
    const request = () => ({
      ...{ source, platform, to: timestamp(to), by, reason },
      ...(from !== undefined && { from: timestamp(from) }),
    });
    return platformOf(await this.call(TaskService.method.resetPlatform, request, options, false));
  }

  /**
   * Has the failed slices of a platform or, without one, of all platforms of the source with names that begin with prefix
   * run again: those with a part between `from` and `until`; left out, they are no bounds. The call is not repeated.
   */
  async retrySlices(
    source: string,
    {
      platform = "",
      prefix = "",
      from,
      until,
      by = "",
      reason = "",
      ...options
    }: CallOptions & SliceTargets & { from?: Date | number; until?: Date | number } = {},
  ): Promise<Platform | undefined> {
    const request = () => ({
      ...{ source, platform, prefix, by, reason },
      ...(from !== undefined && { from: timestamp(from) }),
      ...(until !== undefined && { until: timestamp(until) }),
    });
    return anyPlatformOf(await this.call(TaskService.method.retrySlices, request, options, false));
  }
}
