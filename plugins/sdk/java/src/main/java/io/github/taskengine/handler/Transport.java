package io.github.taskengine.handler;

import io.netty.channel.IoHandlerFactory;
import io.netty.channel.ServerChannel;
import io.netty.channel.epoll.Epoll;
import io.netty.channel.epoll.EpollIoHandler;
import io.netty.channel.epoll.EpollServerDomainSocketChannel;
import io.netty.channel.kqueue.KQueue;
import io.netty.channel.kqueue.KQueueIoHandler;
import io.netty.channel.kqueue.KQueueServerDomainSocketChannel;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioServerDomainSocketChannel;
import io.netty.channel.unix.DomainSocketAddress;
import java.net.SocketAddress;
import java.net.UnixDomainSocketAddress;
import java.util.function.Function;

/** How the platform serves unix sockets. */
record Transport(
    IoHandlerFactory io,
    Class<? extends ServerChannel> channel,
    Function<String, SocketAddress> address) {

  /** That of the platform if its library can be loaded, else that of Java, which is slower. */
  static Transport best() {
    if (Epoll.isAvailable()) {
      return new Transport(
          EpollIoHandler.newFactory(),
          EpollServerDomainSocketChannel.class,
          DomainSocketAddress::new);
    }
    if (KQueue.isAvailable()) {
      return new Transport(
          KQueueIoHandler.newFactory(),
          KQueueServerDomainSocketChannel.class,
          DomainSocketAddress::new);
    }
    return new Transport(
        NioIoHandler.newFactory(), NioServerDomainSocketChannel.class, UnixDomainSocketAddress::of);
  }
}
