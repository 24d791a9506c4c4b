package io.github.taskengine.internal;

import io.netty.channel.Channel;
import io.netty.channel.IoHandlerFactory;
import io.netty.channel.ServerChannel;
import io.netty.channel.epoll.Epoll;
import io.netty.channel.epoll.EpollDomainSocketChannel;
import io.netty.channel.epoll.EpollIoHandler;
import io.netty.channel.epoll.EpollServerDomainSocketChannel;
import io.netty.channel.epoll.EpollSocketChannel;
import io.netty.channel.kqueue.KQueue;
import io.netty.channel.kqueue.KQueueDomainSocketChannel;
import io.netty.channel.kqueue.KQueueIoHandler;
import io.netty.channel.kqueue.KQueueServerDomainSocketChannel;
import io.netty.channel.kqueue.KQueueSocketChannel;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioDomainSocketChannel;
import io.netty.channel.socket.nio.NioServerDomainSocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.channel.unix.DomainSocketAddress;
import java.net.SocketAddress;
import java.net.UnixDomainSocketAddress;
import java.util.function.Function;

/** How the platform serves unix sockets, and connects to them and to hosts. */
public record Transport(
    IoHandlerFactory io,
    Class<? extends ServerChannel> channel,
    Class<? extends Channel> toUnix,
    Class<? extends Channel> toHost,
    Function<String, SocketAddress> address) {

  /** That of the platform if its library can be loaded, else that of Java, which is slower. */
  public static Transport best() {
    if (Epoll.isAvailable()) {
      return new Transport(
          EpollIoHandler.newFactory(),
          EpollServerDomainSocketChannel.class,
          EpollDomainSocketChannel.class,
          EpollSocketChannel.class,
          DomainSocketAddress::new);
    }
    if (KQueue.isAvailable()) {
      return new Transport(
          KQueueIoHandler.newFactory(),
          KQueueServerDomainSocketChannel.class,
          KQueueDomainSocketChannel.class,
          KQueueSocketChannel.class,
          DomainSocketAddress::new);
    }
    return new Transport(
        NioIoHandler.newFactory(),
        NioServerDomainSocketChannel.class,
        NioDomainSocketChannel.class,
        NioSocketChannel.class,
        UnixDomainSocketAddress::of);
  }
}
