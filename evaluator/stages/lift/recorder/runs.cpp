// Runs `./host 0`, `./host 1`, … one after another, each in a process of its own, and says how each ended: a line
// `NUMBER exit CODE`, `NUMBER signal NUMBER` or `NUMBER late`. The first that does not end well is the last.
//
// What the host code starts beside itself is ended with it where it can be, and by the sandbox at the end.

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static double now_s() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void become_host(int number) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    int nothing = open("/dev/null", O_RDONLY), said = open("said", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    dup2(nothing, 0);
    dup2(said >= 0 ? said : nothing, 1);
    dup2(said >= 0 ? said : nothing, 2);
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    char host[] = "./host";
    char *arguments[] = {host, text, nullptr};
    char *environment[] = {nullptr};
    execve(host, arguments, environment);
    _exit(127);
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    int runs = atoi(arguments[1]);
    double limit_s = atof(arguments[2]);
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, nullptr);
    for (int number = 0; number < runs; number++) {
        pid_t process = fork();
        if (process == 0) become_host(number);
        if (process < 0) return 3;
        double until_s = now_s() + limit_s;
        int status = 0;
        bool late = false;
        while (waitpid(process, &status, WNOHANG) != process) {
            double left_s = until_s - now_s();
            if (left_s <= 0) {
                late = true;
                kill(-process, SIGKILL);
                kill(process, SIGKILL);
                waitpid(process, &status, 0);
                break;
            }
            timespec wait = {(time_t)left_s, (long)(1e9 * (left_s - (double)(time_t)left_s))};
            if (wait.tv_sec > 0) wait = {0, 100000000};
            sigtimedwait(&child, nullptr, &wait);
        }
        kill(-process, SIGKILL);
        if (late) printf("%d late\n", number);
        else if (WIFSIGNALED(status)) printf("%d signal %d\n", number, WTERMSIG(status));
        else printf("%d exit %d\n", number, WEXITSTATUS(status));
        fflush(stdout);
        if (late || !WIFEXITED(status) || WEXITSTATUS(status)) return 0;
    }
    return 0;
}
