package io.github.taskengine.internal;

import io.grpc.netty.NettyChannelBuilder;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import java.io.IOException;

/** Connections to nodes. */
public final class Channels {
  private static final int WINDOW_BYTES = 4 << 20;

  private Channels() {}

  /**
   * Begins a channel whose callbacks run in the event loops of a group.
   *
   * @param target host:port, or unix: and a path
   * @param isSecure whether the connection to a host is encrypted
   * @throws IOException if a file of the access cannot be read
   */
  public static NettyChannelBuilder to(
      String target, boolean isSecure, Access access, EventLoopGroup group) throws IOException {
    Transport transport = Transport.best();
    NettyChannelBuilder builder;
    if (target.startsWith("unix:")) {
      builder =
          NettyChannelBuilder.forAddress(
                  transport.address().apply(target.substring("unix:".length())))
              .overrideAuthority("localhost")
              .channelType(transport.toUnix())
              .withOption(ChannelOption.SO_KEEPALIVE, null) // or Netty warns that there is none
              .usePlaintext();
    } else {
      builder = NettyChannelBuilder.forTarget("dns:///" + target).channelType(transport.toHost());
      if (isSecure) {
        builder.sslContext(access.tls());
      } else {
        builder.usePlaintext();
      }
    }
    return builder
        .eventLoopGroup(group)
        .directExecutor()
        .proxyDetector(host -> null)
        .flowControlWindow(WINDOW_BYTES);
  }
}
